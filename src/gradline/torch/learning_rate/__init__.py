"""Learning rates from a search: for training that cannot afford one.

[`find_lr`][gradline.find_lr] trains for a moment and puts everything back; [`StepRecorder`][gradline.StepRecorder]
records a training of your own. Both give one learning rate, or a schedule.
"""

from gradline.torch.learning_rate.find import find_lr
from gradline.torch.learning_rate.recorder import StepRecorder
from gradline.torch.learning_rate.schedule import RecordedSchedule

__all__ = ["RecordedSchedule", "StepRecorder", "find_lr"]
