"""`python -m project runs`: list the runs, show one, or show what differs between two.

    runs                                   all runs, those of an experiment together, newest last
    runs --sort test_accuracy              of each experiment, the best first
    runs latest                            everything about one run
    runs 20261130-180533-b4cd latest       what differs between two

Nothing here imports torch. Whatever a run broke off at, it can be listed.
"""

from project.compare.command import report as report
