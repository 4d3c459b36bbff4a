// Package networks reads which networks a pod requests beside the cluster's own, in the format of the Network
// Plumbing Working Group's de-facto standard (version 1.3, section 4): the annotation k8s.v1.cni.cncf.io/networks and
// the NetworkAttachmentDefinitions that it names. The operator and the agents both read requests with this package,
// so that they agree on interface names and on when a request has changed.
package networks
