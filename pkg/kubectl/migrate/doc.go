// Package migrate translates the objects of another Kubernetes network to Weft's. It is pure: it reads nothing from the
// API server and writes nothing.
//
//	objects of the cluster ──Inspect──▶ Report: what the network is,
//	                                            an Entry for each object,
//	                                            the manifests for Weft
//
// Each object has exactly one outcome. A translator takes the fields that it understands from a copy of the object.
// What is left in the copy is named in the entry, so no field is lost silently.
package migrate
