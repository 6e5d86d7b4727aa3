"""Find learning rates and schedules by a line search, for training without one.

[`find_lr`][gradline.find_lr] runs a short training and restores the model; [`StepRecorder`][gradline.StepRecorder]
records the steps of a training of your own. Both give a constant learning rate or a schedule.
"""

from gradline.torch.learning_rate.find import find_lr
from gradline.torch.learning_rate.recorder import StepRecorder
from gradline.torch.learning_rate.schedule import NoSchedule, RecordedSchedule

__all__ = ["NoSchedule", "RecordedSchedule", "StepRecorder", "find_lr"]
