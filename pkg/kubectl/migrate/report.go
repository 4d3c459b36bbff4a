package migrate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Outcome is what happens to an object.
type Outcome string

// Outcomes of objects.
const (
	// Translated objects have a counterpart among the manifests.
	Translated Outcome = "Translated"
	// Kept objects work with Weft as they are.
	Kept Outcome = "Kept"
	// NotNeeded objects have no use with Weft.
	NotNeeded Outcome = "NotNeeded"
	// Cannot is the outcome of objects that Weft has no counterpart for.
	Cannot Outcome = "Cannot"
)

// Outcomes lists the outcomes in the order of reports.
var Outcomes = []Outcome{Translated, Kept, NotNeeded, Cannot}

// Cluster is what was read of a cluster.
type Cluster struct {
	Objects []*unstructured.Unstructured
	// Counts has the number of objects of kinds whose objects were only counted.
	Counts map[schema.GroupKind]int64
	Unread []Unread
}

// Unread is a resource that could not be read.
type Unread struct {
	// Resource is the resource with its group, "subnets.kubeovn.io".
	Resource string `json:"resource"`
	// Group and Name are the parts of Resource.
	Group string `json:"group"`
	Name  string `json:"name"`
	// Verb is list or get.
	Verb string `json:"verb"`
	// Message is the API server's message.
	Message string `json:"message"`
}

// Report is what Inspect found.
type Report struct {
	Source Source `json:"source"`
	// Objects has the outcome of each object, sorted by kind, namespace and name.
	Objects []Entry `json:"objects"`
	// Manifests are the objects for Weft, in the order in which they must be applied.
	Manifests []Manifest `json:"manifests"`
	// Problems say what keeps the manifests from being complete.
	Problems []string `json:"problems"`
	// Steps are what a person must do besides applying the manifests.
	Steps []string `json:"steps"`
	// Unread lists what could not be read. Objects of these resources have no entry.
	Unread []Unread `json:"unread"`
}

// Source is the network of the cluster.
type Source struct {
	// Network is the name of the network. It is empty if no known network was found.
	Network string `json:"network"`
	// Version is the version of its image, or empty.
	Version string `json:"version"`
	// Mode describes how it connects pods, "VXLAN".
	Mode string `json:"mode"`
	// Evidence names the objects that identify the network.
	Evidence []string `json:"evidence"`
	// Besides names other known networks and programs of which parts were found.
	Besides []string `json:"besides"`
}

// Entry is the outcome of an object.
type Entry struct {
	// Object is the kind with its group, the namespace and the name: "EgressIP.k8s.ovn.org team-a".
	Object string `json:"object"`
	// Count is the number of objects that the entry stands for. It is 1 except for objects that are only counted.
	Count   int64   `json:"count"`
	Outcome Outcome `json:"outcome"`
	// To lists the manifests that the object became.
	To []string `json:"to"`
	// Reason says why the object has this outcome.
	Reason string `json:"reason"`
	// Next is what a person should do. It is empty if nothing must be done.
	Next string `json:"next"`
	// Fields lists the fields without an exact counterpart.
	Fields []Field `json:"fields"`
}

// Field is a field without an exact counterpart.
type Field struct {
	// Path is the field, "spec.vpc".
	Path string `json:"path"`
	// Message says what becomes of it.
	Message string `json:"message"`
	// Lost reports whether the network behaves otherwise without the field.
	Lost bool `json:"lost"`
}

// Manifest is an object for Weft.
type Manifest struct {
	// File is the file of the manifest, "20-clusternetwork.yaml". Files are applied in the order of their names.
	File string `json:"file"`
	// From names the objects that it was made of.
	From   []string       `json:"from"`
	Object map[string]any `json:"object"`
}

// Complete reports whether everything was read, and has a counterpart or needs none.
func (r Report) Complete() bool {
	for _, e := range r.Objects {
		if e.Outcome == Cannot {
			return false
		}
		for _, f := range e.Fields {
			if f.Lost {
				return false
			}
		}
	}
	return len(r.Problems) == 0 && len(r.Unread) == 0
}

// nameOf identifies an object: "Subnet.kubeovn.io blue", "Pod demo/web".
func nameOf(o *unstructured.Unstructured) string {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return fmt.Sprintf("%s %s", kindName(o.GroupVersionKind().GroupKind()), name)
}

// kindName is the kind with its group, unless the group is a group of Kubernetes' own workloads.
func kindName(k schema.GroupKind) string {
	if k.Group == "apps" {
		return k.Kind
	}
	return k.String()
}
