package agent_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/agent"
	"github.com/weft-network/weft/pkg/cni/cniwire"
)

// stageLog records the stages that the agent observes.
type stageLog struct {
	mu     sync.Mutex
	passed map[string]time.Duration
	failed []string
}

func (l *stageLog) observe(o *agent.Options) {
	o.ObserveStage = func(stage string, took time.Duration) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.passed[stage] = took
	}
	o.ObserveStageFailed = func(stage string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failed = append(l.failed, stage)
	}
}

func TestStagesOfAnAddAreTimed(t *testing.T) {
	l := &stageLog{passed: map[string]time.Duration{}}
	n := readyNodeWith(t, l.observe)
	web, other := n.newPod("web", 5), n.newPod("other", 6)
	began := time.Now()
	answers, _ := n.startAdd(web)
	n.awaitWait(web, answers, noPort)
	waiting := time.Now()
	n.givePort(other)
	n.add(other)
	waited := time.Since(waiting)
	l.mu.Lock()
	clear(l.passed) // the stages of other
	l.mu.Unlock()
	n.givePort(web)
	if a := <-answers; a.err != nil {
		t.Fatal(a.err)
	}
	whole := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum time.Duration
	// The stage binding may be reported after the result.
	for _, stage := range []string{"node", "address", "link", "port", "interface", "flows"} {
		took, ok := l.passed[stage]
		if !ok {
			t.Errorf("stage %s was not observed, only %v", stage, l.passed)
		}
		sum += took
	}
	if sum += l.passed["binding"]; sum > whole {
		t.Errorf("the stages took %s together, the ADD %s", sum, whole)
	}
	if l.passed["address"] < waited || len(l.failed) != 0 {
		t.Errorf("stages took %v, failed are %v", l.passed, l.failed)
	}
	t.Logf("stages: %v; the ADD waited at least %s for its port", l.passed, waited)
}

// events returns the notes of the agent's events on a pod.
func (n *node) events(p pod) (notes []string) {
	n.Helper()
	var list eventsv1.EventList
	n.must(api.List(n.Context(), &list, client.InNamespace("demo")))
	for _, e := range list.Items {
		ofPod := e.Regarding.Kind == "Pod" && e.Regarding.Name == p.name && string(e.Regarding.UID) == p.uid
		if ofPod && e.ReportingController == "weft-agent" {
			notes = append(notes, e.Reason+": "+e.Note)
		}
	}
	return notes
}

// C12: a timeout must not hide its cause. The error, an event on the pod and the metric name the stage that was not
// reached, its owner and its last state.
func TestATimeOutNamesTheStage(t *testing.T) {
	n := newNode(t)
	l := &stageLog{passed: map[string]time.Duration{}}
	n.options = func(o *agent.Options) {
		l.observe(o)
		o.RequestTimeout = 3 * time.Second
	}
	err := api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
	n.must(client.IgnoreAlreadyExists(err))
	n.ovs.RunController()
	n.startAgent()
	fail := func(name string, slot int, stage, text string) {
		t.Helper()
		web := n.newPod(name, slot)
		if slot != 0 {
			n.givePort(web)
		}
		answers, _ := n.startAdd(web)
		var coded *cniwire.Error
		a := <-answers
		if !errors.As(a.err, &coded) || coded.Code != cniwire.CodeTryAgainLater {
			t.Fatalf("ADD: %v", a.err)
		}
		for _, want := range []string{"port demo_" + name + ": ", text, "stage " + stage} {
			if !strings.Contains(coded.Msg, want) {
				t.Errorf("the error lacks %q: %s", want, coded.Msg)
			}
		}
		n.until("the event", func() error {
			want := "FailedInterfaceCreation: " + coded.Msg
			return isTrue(slices.Contains(n.events(web), want), fmt.Sprintf("events are %q, want %q", n.events(web), want))
		})
	}
	fail("early", 0, "node, of weft-agent", "the operator has not made NodeNetwork node1 yet")
	n.join()
	n.awaitStatus(0, "")
	fail("portless", 0, "address, of the operator and ovn-northd", "the operator has not given it a port yet")
	n.ovs.KillController()
	fail("unclaimed", 5, "binding, of ovn-controller", "ovn-controller has not claimed it yet: ovn-controller does not answer")
	n.ovs.RunController()
	n.awaitStatus(0, "")
	n.ovs.KillSwitch()
	fail("unplugged", 6, "interface, of ovs-vswitchd", "ovs-vswitchd has not made it a port of br-int yet: ovs-vswitchd does not answer")
	n.ovs.RunSwitch()
	n.awaitPods()
	l.mu.Lock()
	defer l.mu.Unlock()
	if want := []string{"node", "address", "binding", "interface"}; !slices.Equal(l.failed, want) {
		t.Errorf("failed stages are %v", l.failed)
	}
}

// C2: a newer sandbox ends the ADD of the previous one, which could never succeed.
func TestANewerSandboxEndsTheAddOfTheFormer(t *testing.T) {
	n := readyNode(t)
	web := n.newPod("web", 5)
	former, _ := n.startAdd(web)
	n.awaitWait(web, former, noPort)
	next := web
	next.container = "sandbox-web-2"
	next.netNS = n.newNetNS(next.container)
	answers, _ := n.startAdd(next)
	if a := <-former; a.err == nil || !strings.Contains(a.err.Error(), "a newer sandbox of the pod has come") {
		t.Errorf("the former ADD: %v", a.err)
	}
	n.givePort(web)
	if a := <-answers; a.err != nil {
		t.Fatal(a.err)
	}
	n.del(web) // the previous sandbox's DEL comes only now
	n.awaitPods(next)
	n.wantTraffic(next)
}
