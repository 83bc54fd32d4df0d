"""The gate: the cost of the working copy beside that of a release, in turns, on any machine.

`work` lists what is measured, `sides` installs a commit and starts its processes, `worker` is the program that runs
in them, `ratios` judges, `table` prints. The gate knows nothing of the engine's inside: both sides are driven
through the public interface.
"""
