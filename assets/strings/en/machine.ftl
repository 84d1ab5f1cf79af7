### Verdict on this machine.

experts-approximate = Approximate: the model does not say how many experts a token uses
first-generation = This was the first generation after loading; the next one says more
reply-slowed = The reply slowed to { $part }% of its first pace
context-at = Context at { $part }% of the window
judge-nothing = Nothing measured yet
step-uses = A plain step uses { $part }% of memory bandwidth
step-moves = A plain step moves { $moved } of { $bandwidth } GB/s
step-unbelievable = A plain step moves more than memory was measured to give: something else was running then, measure again
step-as-should = { $moved }, as it should
step-small = { $moved }: a small model, where the cost of a step is not its bytes
step-processor = { $moved }: on the processor arithmetic sets the pace, not memory
step-somewhat-below = { $moved }, somewhat below what this machine gives
step-well-below = { $moved }, well below what this machine gives
drafting-delivers = Drafting delivers { $ratio }× the plain ceiling
reply-near-ceiling = The last reply came near the plain ceiling, { $ratio }×
reply-below-ceiling = The last reply stayed below the plain ceiling, { $ratio }×
accepted-per-round-n = { $accept } tokens accepted per round
swap-grew = Swap grew by { $size } MiB during the last reply
no-swap-growth = No swap growth in the last reply
pressure-critical-finding = Memory pressure is CRITICAL: other apps and the model want more than there is
pressure-high-finding = Memory pressure is high: other apps and the model want more than there is
