package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/render"
)

const (
	// compareTime limits the preflight. After that the rollout continues without its result, because an unreadable
	// database may be the reason for the upgrade.
	compareTime = 3 * time.Minute
	// fewRows is the number of rows that a version may always delete; it may also delete a tenth of all rows.
	fewRows = 20
)

// Difference is what a version would change in the northbound database according to its preflight. The maps count
// rows by table.
type Difference struct {
	// Rows is the number of Weft's rows.
	Rows    int            `json:"rows"`
	Inserts map[string]int `json:"inserts,omitempty"`
	Updates map[string]int `json:"updates,omitempty"`
	Deletes map[string]int `json:"deletes,omitempty"`
	// Error says why the difference is unknown.
	Error string `json:"error,omitempty"`
}

// ReadDifference parses the termination message of the preflight's container. Any other message becomes the Error.
func ReadDifference(message string) Difference {
	var d Difference
	if err := json.Unmarshal([]byte(message), &d); err != nil {
		return Difference{Error: strings.TrimSpace("no result " + message)}
	}
	return d
}

// Text returns the difference in one line.
func (d Difference) Text() string {
	if d.Error != "" {
		return "unknown: " + d.Error
	}
	var parts []string
	for _, of := range []struct {
		what string
		rows map[string]int
	}{{"created", d.Inserts}, {"changed", d.Updates}, {"removed", d.Deletes}} {
		for _, table := range slices.Sorted(maps.Keys(of.rows)) {
			parts = append(parts, fmt.Sprintf("%d %s %s", of.rows[table], table, of.what))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("none, of %d rows", d.Rows)
	}
	return fmt.Sprintf("%s, of %d rows", strings.Join(parts, ", "), d.Rows)
}

// large reports whether the version would delete more rows than an upgrade should.
func (d Difference) large() bool {
	gone := 0
	for _, n := range d.Deletes {
		gone += n
	}
	return gone > max(fewRows, d.Rows/10)
}

// comparison is the progress of a preflight.
type comparison struct {
	pod    *corev1.Pod // nil: not started
	over   bool
	result Difference
}

// preflightPod returns the existing preflight, of whichever version.
func (v *view) preflightPod() (c comparison) {
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.Name != render.Preflight {
			continue
		}
		c.pod = p
		if c.over = p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed; c.over {
			message := p.Status.Message
			for _, s := range p.Status.ContainerStatuses {
				if s.State.Terminated != nil {
					message = s.State.Terminated.Message
				}
			}
			c.result = ReadDifference(message)
		}
	}
	return c
}

// compare lets the new operator compute what it would change in the northbound database. It returns nil when the
// rollout may begin, and blocked if the administrator must accept the difference first.
func (v *view) compare(s *Step) (w *wait, blocked bool) {
	if v.There[render.Operator] == nil || v.central.disturbed() || !v.central.ready {
		return nil, false // there is no network to compare with
	}
	w = &wait{
		stage: networkv1alpha1.StagePreflight, object: "Pod/" + render.Preflight,
		message: "computing what the new version would change in the northbound database",
	}
	wantedRevision := render.Template(v.Wanted[render.Operator]).Annotations[render.AnnotationRevision]
	c := v.preflightPod()
	switch {
	case c.pod == nil:
		s.StartPreflight = true
		return w, false
	case c.pod.Annotations[render.AnnotationRevision] != wantedRevision:
		s.DeletePreflight = true
		return w, false
	case !c.over:
		if until := c.pod.CreationTimestamp.Add(compareTime); v.Now.Before(until) {
			s.Recheck = until
			return w, false
		}
		c.result = Difference{Error: "the preflight took too long"}
	}
	v.difference = c.result.Text()
	if c.result.large() && v.Network.Annotations[networkv1alpha1.AcceptDifferenceAnnotation] != v.Operand.Version {
		w.message = fmt.Sprintf("the new version would remove unexpectedly many rows (%s); see kubectl -n %s logs %s. "+
			"To accept this, run: kubectl annotate clusternetwork %s %s=%s",
			v.difference, v.Operand.Namespace, render.Preflight,
			v.Network.Name, networkv1alpha1.AcceptDifferenceAnnotation, v.Operand.Version)
		return w, true
	}
	return nil, false
}
