// Package figures is what `make bench` finds: the result of a run, how it grows with the cluster, and how two results compare. It measures
// nothing.
package figures
