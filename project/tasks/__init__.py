"""Problems, by what is predicted."""

from project.tasks.classification import Classification
from project.tasks.detection import Detection
from project.tasks.multi_label import MultiLabel
from project.tasks.regression import Regression
from project.tasks.segmentation import Segmentation
from project.tasks.task import Task

__all__ = ["Classification", "Detection", "MultiLabel", "Regression", "Segmentation", "Task"]
