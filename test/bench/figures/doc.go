// Package figures holds the results of `make bench`: the figures of a run, how they grow with the cluster, and how
// two results compare. It does not measure.
package figures
