package policy

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/facts"
	"github.com/weft-network/weft/pkg/topology"
)

// countingReader counts the pods of all lists.
type countingReader struct {
	client.Reader
	pods int
}

// List implements client.Reader.
func (r *countingReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.Reader.List(ctx, list, options...)
	if pods, ok := list.(*corev1.PodList); ok {
		r.pods += len(pods.Items)
	}
	return err
}

// The pods of a selector are found without a copy of other pods, even a pod whose namespace is not cached yet.
func TestPodsOfASelector(t *testing.T) {
	var objects []client.Object
	for name, set := range map[string]labels.Set{"red": {"team": "red"}, "blue": {"team": "blue"}, "absent": nil} {
		if set != nil {
			objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}})
		}
		for i, app := range []string{"web", "client", ""} {
			objects = append(objects, aPod(func(p *corev1.Pod) {
				p.Namespace, p.Name, p.Labels = name, fmt.Sprint(i), map[string]string{"app": app}
			}))
		}
	}
	b := newBed(t, topology.KindNetworkPolicy, objects...)
	web, all := labels.SelectorFromSet(labels.Set{"app": "web"}), labels.Everything()
	red := labels.SelectorFromSet(labels.Set{"team": "red"})
	notRed, err := labels.Parse("team!=red")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		selector facts.PodSelector
		want     []string
	}{
		{facts.PodSelector{Namespace: "red", Pods: web}, []string{"red/0"}},
		{facts.PodSelector{Namespace: "red", Pods: all}, []string{"red/0", "red/1", "red/2"}},
		{facts.PodSelector{Namespaces: red, Pods: web}, []string{"red/0"}},
		{facts.PodSelector{Namespaces: all, Pods: web}, []string{"absent/0", "blue/0", "red/0"}},
		{facts.PodSelector{Namespaces: labels.SelectorFromSet(labels.Set{"team": "green"}), Pods: all}, nil},
	} {
		counting := &countingReader{Reader: b.Env.Client}
		var have []string
		names, err := world{counting}.pods(t.Context(), c.selector)
		for _, name := range names {
			have = append(have, name.String())
		}
		if slices.Sort(have); err != nil || !slices.Equal(have, c.want) || counting.pods != len(c.want) {
			t.Errorf("%v: %v of %d listed pods, want %v; error %v", c.selector, have, counting.pods, c.want, err)
		}
	}
	names, err := world{b.Env.Client}.pods(t.Context(), facts.PodSelector{Namespaces: notRed, Pods: web})
	if err != nil || len(names) != 2 {
		t.Errorf("pods %v outside red namespaces, want those of blue and of the namespace that is not cached; error %v", names, err)
	}
}
