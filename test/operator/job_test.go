package operator

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAJobLargerThanItsSubnet covers failure mode I4. 500 pods run to completion on a node with 60 addresses. Each
// gets an address when another pod has ended. No two running pods share an address. Ended pods hold none, not even
// after a restart of the operator.
func TestAJobLargerThanItsSubnet(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.network(entry("10.244.0.0/16", 26))
	w.join("n1")
	const total, room = 500, 60
	jobs := w.create("n1", names("job", total)...)
	running, ended := map[netip.Addr]*corev1.Pod{}, map[string]bool{}
	for len(ended) < total {
		var found []*corev1.Pod
		w.until(func() error {
			found = w.withPorts(jobs, ended)
			if len(found) < min(room, total-len(ended)) {
				return fmt.Errorf("%d pods have a port, %d ended", len(found), len(ended))
			}
			return nil
		})
		clear(running)
		for _, p := range found {
			address := w.addresses(w.port(p))[0]
			if other := running[address]; other != nil {
				t.Fatalf("%s and %s both have %s", other.Name, p.Name, address)
			}
			running[address] = p
		}
		for address, p := range running {
			w.phase(p, corev1.PodSucceeded, address)
			ended[p.Name] = true
		}
	}
	for _, p := range jobs {
		w.noPort(p)
	}
	w.operators[0].stop()
	w.start() // it reads the addresses that the ended pods report
	for _, p := range w.create("n1", names("after", room)...) {
		w.port(p)
	}
}

// withPorts lists the pods that have a port and have not ended.
func (w *world) withPorts(pods []*corev1.Pod, ended map[string]bool) (found []*corev1.Pod) {
	for _, p := range pods {
		if _, err := w.findPort(p); !ended[p.Name] && !errors.Is(err, errAbsent) {
			found = append(found, p)
		}
	}
	return found
}
