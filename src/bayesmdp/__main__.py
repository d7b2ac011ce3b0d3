"""``python -m bayesmdp``."""

from bayesmdp.cli import main

main()
