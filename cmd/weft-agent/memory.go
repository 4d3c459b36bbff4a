package main

import (
	"runtime"
	"runtime/debug"
)

// gcPercent makes the collector run when the heap has grown by a quarter; Go's default would let it double. The agent
// runs on every node and holds about 5 MiB, and an ADD with its DEL leaves a few hundred KiB of garbage.
const gcPercent = 25

// beFrugal limits memory use. main calls it first, because the profiler keeps the samples that it has already taken.
func beFrugal() {
	runtime.MemProfileRate = 0 // the agent serves no profile
	debug.SetGCPercent(gcPercent)
}
