package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/agent"
)

// Someone removes a pod's address inside the pod, which the agent is not notified of. Its check reports that with an
// event on the pod, the node's condition and the metric. The node stays ready. The reports end when the interface is
// correct again.
func TestTheAgentChecksByItself(t *testing.T) {
	var failing atomic.Int64
	n := readyNodeWith(t, func(o *agent.Options) {
		o.CheckInterval, o.ObserveFailing = time.Second, func(now int) { failing.Store(int64(now)) }
	})
	err := api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
	n.must(client.IgnoreAlreadyExists(err))
	web, other := n.newPod("web", 5), n.newPod("other", 6)
	for _, p := range []pod{web, other} {
		n.givePort(p)
		n.add(p)
	}
	n.awaitCondition(networkv1alpha1.ConditionInterfacesReady, metav1.ConditionTrue)
	n.must(inNetNS(web.netNS, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.AddrDel(link, &netlink.Addr{IPNet: mustIPNet("10.244.1.5/24")})
	}))
	const text = "interface eth0 of container sandbox-web: address 10.244.1.5/24 is missing"
	n.until("the condition", func() error {
		err := n.condition(networkv1alpha1.ConditionInterfacesReady, metav1.ConditionFalse)
		if err != nil {
			return err
		}
		for _, c := range n.status().Conditions {
			if c.Type == networkv1alpha1.ConditionInterfacesReady &&
				strings.HasPrefix(c.Message, "1 of 2 interfaces of pods: "+text) {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", n.status().Conditions)
	})
	if err := n.condition(networkv1alpha1.ConditionReady, metav1.ConditionTrue); err != nil {
		t.Errorf("the node: %v", err)
	}
	n.until("the event", func() error {
		notes := n.events(web)
		return isTrue(len(notes) == 1 && strings.HasPrefix(notes[0], "FailedInterfaceCheck: "+text), fmt.Sprint(notes))
	})
	if notes := n.events(other); len(notes) != 0 {
		t.Errorf("the other pod has events %v", notes)
	}
	if failing.Load() != 1 {
		t.Errorf("the metric is %d", failing.Load())
	}
	n.del(web)
	n.add(web)
	n.awaitCondition(networkv1alpha1.ConditionInterfacesReady, metav1.ConditionTrue)
	n.until("the metric", func() error {
		if failing.Load() != 0 {
			return errors.New("the metric counts a failing interface")
		}
		return nil
	})
	n.stopAgent() // the record has the network namespace, so that the next agent checks inside the pod too
	n.must(inNetNS(web.netNS, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, 1300)
	}))
	n.startAgent()
	n.awaitCondition(networkv1alpha1.ConditionInterfacesReady, metav1.ConditionFalse)
}
