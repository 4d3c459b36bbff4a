package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The files of the manifests, in the order in which they are applied.
const (
	fileNodes    = "10-nodenetworks.yaml"
	fileCluster  = "20-clusternetwork.yaml"
	fileNetworks = "30-networks.yaml"
	filePools    = "40-pools.yaml"
	fileEgress   = "50-egress.yaml"
	fileBGP      = "55-bgp.yaml"
	filePolicies = "60-policies.yaml"
)

// Inspect finds out which network a cluster has, and translates its objects.
func Inspect(c Cluster) Report {
	in := &inspector{cluster: c, byKind: map[schema.GroupKind][]*unstructured.Unstructured{}, plan: newPlan(),
		entries: map[string]*Entry{}}
	for _, o := range sorted(c.Objects) {
		k := o.GroupVersionKind().GroupKind()
		in.byKind[k] = append(in.byKind[k], o)
	}
	in.report.Unread = c.Unread
	in.detect()
	in.facts()
	for _, o := range sorted(c.Objects) {
		in.object(o)
	}
	in.counts()
	in.annotations()
	in.finish()
	return in.report
}

// sorted sorts objects by kind, namespace and name.
func sorted(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GroupVersionKind().GroupKind().String(), b.GroupVersionKind().GroupKind().String()),
			cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return objects
}

// inspector collects the report.
type inspector struct {
	cluster Cluster
	byKind  map[schema.GroupKind][]*unstructured.Unstructured
	plan    *plan
	report  Report
	// entries has the entries by object.
	entries map[string]*Entry
	order   []*Entry
	network network
}

// item is an object that is being translated.
type item struct {
	in *inspector
	*unstructured.Unstructured
	fields
	entry *Entry
}

// spec returns the fields below spec.
func (i *item) spec() fields { return i.inner("spec") }

// entry returns the entry of an object, which is created if necessary.
func (in *inspector) entry(name string) *Entry {
	e := in.entries[name]
	if e == nil {
		e = &Entry{Object: name, Count: 1, To: []string{}, Fields: []Field{}}
		in.entries[name] = e
		in.order = append(in.order, e)
	}
	return e
}

// item returns a copy of an object without the fields that no translator reads.
func (in *inspector) item(o *unstructured.Unstructured) *item {
	tree := o.DeepCopy().Object
	for _, key := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(tree, key)
	}
	return &item{in: in, Unstructured: o, fields: newFields("", tree), entry: in.entry(nameOf(o))}
}

// object gives an object its outcome.
func (in *inspector) object(o *unstructured.Unstructured) {
	k := o.GroupVersionKind().GroupKind()
	if _, counted := stateKinds[k]; counted || isShared(k) {
		return // they are counted, or have an entry if they concern the network
	}
	r, ok := rules[k]
	i := in.item(o)
	switch {
	case !ok:
		i.cannot(fmt.Sprintf("kind %s is unknown to this version of the command", k),
			"find out what uses it before the move; report the kind as an issue")
		return
	case r.translate == nil:
		i.outcome(r.outcome, r.reason, r.next)
		return
	}
	r.translate(i)
	i.leftovers()
}

// leftovers names the fields that no translator took.
func (i *item) leftovers() {
	for _, path := range i.rest() {
		i.lose(path, "unknown field, not translated")
	}
	i.entry.Fields = append(i.entry.Fields, *i.wrong...)
	*i.wrong = nil
}

func (i *item) outcome(o Outcome, reason, next string) {
	i.entry.Outcome, i.entry.Reason, i.entry.Next = o, reason, next
}

func (i *item) cannot(reason, next string) {
	i.outcome(Cannot, reason, next)
	i.left = nil // the reason stands for all fields
}

func (i *item) notNeeded(reason string) {
	i.outcome(NotNeeded, reason, "")
	i.left = nil
}

func (i *item) kept(reason string) {
	i.outcome(Kept, reason, "")
	i.left = nil
}

// lose names a field without which the network behaves otherwise.
func (i *item) lose(path, message string, args ...any) {
	i.entry.Fields = append(i.entry.Fields, Field{path, fmt.Sprintf(message, args...), true})
}

// note names a field with a counterpart of another form.
func (i *item) note(path, message string, args ...any) {
	i.entry.Fields = append(i.entry.Fields, Field{path, fmt.Sprintf(message, args...), false})
}

// drop takes fields that have no counterpart, and names the fields with a value other than the default.
func (f fields) drop(i *item, message string, lost bool, keys ...string) {
	for _, key := range keys {
		value := f.take(key)
		switch v := value.(type) {
		case nil:
			continue
		case bool:
			if !v {
				continue
			}
		case string:
			if v == "" {
				continue
			}
		case []any:
			if len(v) == 0 {
				continue
			}
		case map[string]any:
			if len(v) == 0 {
				continue
			}
		}
		i.entry.Fields = append(i.entry.Fields, Field{f.at(key), message + ": " + short(value), lost})
	}
}

// becomes makes an object one of the manifests, and the item Translated. reason may be empty.
func (i *item) becomes(file string, made runtime.Object, reason string) {
	to := i.in.manifest(file, made, i.entry.Object)
	i.outcome(Translated, cmp.Or(i.entry.Reason, reason), i.entry.Next)
	if !slices.Contains(i.entry.To, to) {
		i.entry.To = append(i.entry.To, to)
	}
}

// partOf makes the item Translated as a part of the ClusterNetwork.
func (i *item) partOf(reason string) {
	i.outcome(Translated, reason, i.entry.Next)
	i.entry.To = append(i.entry.To, clusterNetworkName)
	i.in.plan.from = append(i.in.plan.from, i.entry.Object)
}

// manifest adds an object to the manifests and returns its name.
func (in *inspector) manifest(file string, made runtime.Object, from ...string) string {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made)
	if err != nil {
		in.problem("%T cannot be a manifest: %v", made, err)
		return fmt.Sprintf("%T", made)
	}
	delete(tree, "status")
	unstructured.RemoveNestedField(tree, "metadata", "creationTimestamp")
	o := &unstructured.Unstructured{Object: tree}
	name := nameOf(o)
	for n := range in.report.Manifests {
		have := &in.report.Manifests[n]
		if nameOf(&unstructured.Unstructured{Object: have.Object}) == name {
			have.Object, have.From = tree, append(have.From, from...)
			return name
		}
	}
	in.report.Manifests = append(in.report.Manifests, Manifest{File: file, From: from, Object: tree})
	return name
}

// step adds what a person must do. Equal steps are added once.
func (in *inspector) step(text string, args ...any) {
	if text = fmt.Sprintf(text, args...); !slices.Contains(in.report.Steps, text) {
		in.report.Steps = append(in.report.Steps, text)
	}
}

func (in *inspector) problem(text string, args ...any) {
	in.report.Problems = append(in.report.Problems, fmt.Sprintf(text, args...))
}

// finish builds the ClusterNetwork and sorts the report.
func (in *inspector) finish() {
	in.clusterNetwork()
	r := &in.report
	for _, e := range in.order {
		slices.SortStableFunc(e.Fields, func(a, b Field) int { return cmp.Compare(a.Path, b.Path) })
		r.Objects = append(r.Objects, *e)
	}
	slices.SortStableFunc(r.Objects, func(a, b Entry) int { return cmp.Compare(a.Object, b.Object) })
	slices.SortStableFunc(r.Manifests, func(a, b Manifest) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(manifestName(a), manifestName(b)))
	})
}

func manifestName(m Manifest) string { return nameOf(&unstructured.Unstructured{Object: m.Object}) }

// inNamespaces selects namespaces by their names.
func inNamespaces(names ...string) *metav1.LabelSelector {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) == 1 {
		return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: names[0]}}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: names}}}
}

// weftName makes a name of an object: lower case letters, digits and dashes, at most 63.
func weftName(parts ...string) string {
	var b strings.Builder
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	for _, r := range strings.ToLower(strings.Join(parts, "-")) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else {
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-")
	if len(name) > 63 {
		name = strings.Trim(name[:63], "-")
	}
	if name == "default" {
		return "default-pods"
	}
	return cmp.Or(name, "unnamed")
}
