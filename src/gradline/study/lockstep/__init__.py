"""Many runs of one network at once, in one batched evaluation a round."""

from gradline.study.lockstep.engine import Lockstep

__all__ = ["Lockstep"]
