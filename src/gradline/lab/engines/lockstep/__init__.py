"""Many runs of one network at once, in one batched evaluation a round."""

from gradline.lab.engines.lockstep.engine import Lockstep

__all__ = ["Lockstep"]
