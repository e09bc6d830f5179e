"""Parameter groups, and learning-rate schedules that count the run's real optimizer steps."""

from project.optim.groups import Part, check_same_groups, group_names, parameter_groups
from project.optim.plateau import Plateau
from project.optim.scheduler import Scheduler
from project.optim.schedules import Constant, Cosine, Linear, OneCycle, Schedule, Steps

__all__ = [
    "Constant",
    "Cosine",
    "Linear",
    "OneCycle",
    "Part",
    "Plateau",
    "Schedule",
    "Scheduler",
    "Steps",
    "check_same_groups",
    "group_names",
    "parameter_groups",
]
