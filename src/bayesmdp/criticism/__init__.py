"""Should we believe it: what priors imply, and whether intervals keep their promise."""

from bayesmdp.criticism._calibrate import calibrate
from bayesmdp.criticism._calibration import Calibration
from bayesmdp.criticism._plot import plot_calibration
from bayesmdp.criticism._study import Episodes

__all__ = ["Calibration", "Episodes", "calibrate", "plot_calibration"]
