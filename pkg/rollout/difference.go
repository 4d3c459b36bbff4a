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
	"github.com/weft-network/weft/pkg/operand"
)

const (
	// compareTime is how long a preflight may take until the rollout goes on without it: a database that cannot be read may be why there is another version.
	compareTime = 3 * time.Minute
	// fewRows may go without a question, and otherwise a tenth of all.
	fewRows = 20
)

// Difference is what a version would change in the northbound database, as its preflight says it: rows by table.
type Difference struct {
	// Rows is how many of Weft's there are.
	Rows    int            `json:"rows"`
	Inserts map[string]int `json:"inserts,omitempty"`
	Updates map[string]int `json:"updates,omitempty"`
	Deletes map[string]int `json:"deletes,omitempty"`
	// Error says why there is no answer.
	Error string `json:"error,omitempty"`
}

// ReadDifference reads the message that a preflight's container has left. One that says nothing else was ended by somebody.
func ReadDifference(message string) Difference {
	var d Difference
	if err := json.Unmarshal([]byte(message), &d); err != nil {
		return Difference{Error: strings.TrimSpace("no answer " + message)}
	}
	return d
}

// Text is the difference in one line.
func (d Difference) Text() string {
	if d.Error != "" {
		return "not known: " + d.Error
	}
	var parts []string
	for _, of := range []struct {
		what string
		rows map[string]int
	}{{"made", d.Inserts}, {"changed", d.Updates}, {"removed", d.Deletes}} {
		for _, table := range slices.Sorted(maps.Keys(of.rows)) {
			parts = append(parts, fmt.Sprintf("%d %s %s", of.rows[table], table, of.what))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("none, of %d rows", d.Rows)
	}
	return fmt.Sprintf("%s, of %d rows", strings.Join(parts, ", "), d.Rows)
}

// large tells whether more rows would go than any version has a reason for.
func (d Difference) large() bool {
	gone := 0
	for _, n := range d.Deletes {
		gone += n
	}
	return gone > max(fewRows, d.Rows/10)
}

// comparison is how far a preflight is.
type comparison struct {
	pod  *corev1.Pod // nil: it was not begun
	over bool
	said Difference
}

// preflightPod finds the comparison that there is, of whichever version.
func (v *view) preflightPod() (c comparison) {
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.Name != operand.Preflight {
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
			c.said = ReadDifference(message)
		}
	}
	return c
}

// compare has the wanted operator say what it would change in the northbound database; nil: it may begin.
func (v *view) compare(s *Step) (w *wait, blocked bool) {
	if v.There[operand.Operator] == nil || v.central.disturbed() || !v.central.ready {
		return nil, false // there is nothing to compare with
	}
	w = &wait{stage: networkv1alpha1.StagePreflight, object: "Pod/" + operand.Preflight, message: "what the version changes in the northbound database is computed"}
	c := v.preflightPod()
	switch {
	case c.pod == nil:
		s.Compare = true
		return w, false
	case c.pod.Annotations[operand.AnnotationRevision] != operand.Template(v.Wanted[operand.Operator]).Annotations[operand.AnnotationRevision]:
		s.Forget = true
		return w, false
	case !c.over:
		if until := c.pod.CreationTimestamp.Add(compareTime); v.Now.Before(until) {
			s.Again = until
			return w, false
		}
		c.said = Difference{Error: "the preflight took too long"}
	}
	v.difference = c.said.Text()
	if c.said.large() && v.Network.Annotations[networkv1alpha1.AcceptDifferenceAnnotation] != v.Operand.Version {
		w.message = fmt.Sprintf("it would remove more rows than a version has a reason for (%s). See kubectl -n %s logs %s. If that is meant: kubectl annotate clusternetwork %s %s=%s",
			v.difference, v.Operand.Namespace, operand.Preflight, v.Network.Name, networkv1alpha1.AcceptDifferenceAnnotation, v.Operand.Version)
		return w, true
	}
	return nil, false
}
