// Package networkport reconciles the ports of pods on Networks: each Network that a pod requests beside the cluster's
// own gives the pod an address and a port in the database. The pod's port on the cluster network is package pod's.
package networkport
