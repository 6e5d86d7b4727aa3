"""`gradline bench`: a fair comparison of gradline with other ways to train, counted in gradient evaluations.

* `problems`: what is trained, with batch sizes, budgets and targets, each for tuning or held out.
* `peers`: who trains it. Every evaluation is counted where the loss is computed, whatever an optimizer says of itself.
* `runs`, `store`, `runner`: one small file for each run, and what is there is not made again.
* `packed`: many runs in one small file, which can be kept beside the code.
* `measures`, `profiles`, `memory`, `comparison`: what is read from the runs; `figures` and `heat` draw it.

The rules: all methods of a seed begin at the same weights and draw the same sequence of batches. Peers have their
documented defaults. A forward pass alone counts as a third of an evaluation. What fails is shown, with the reason.
"""
