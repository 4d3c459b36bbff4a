// Package facts reads Kubernetes objects into plain values, from which pkg/topology builds units. Its functions are
// pure: they use no clients and no clock.
//
//	Kubernetes objects ──▶ facts ──▶ topology ──▶ unit.Unit
//	Pod, Service, ...      values    rows
//
// A Parse function returns the values of one object with the objects that it depends on. An unreadable field is an
// error or a problem that names the field, and what the field decides fails closed. Functions that only compare
// objects are here too: which NodeNetwork or Service has precedence, which subnets a node receives, which node carries
// an egress IP, and which node may move its link.
//
// The package has no rows: it imports neither pkg/unit nor the models of OVN's databases.
package facts
