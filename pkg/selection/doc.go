// Package selection records which selectors of pods policies use, and which pods give numbers to named ports. A pod's
// unit names the port groups and address sets of the selectors that match the pod, so that a change of one pod never
// needs the list of the others.
package selection
