package scheduler

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/pki"
	"github.com/weft-network/weft/pkg/servers/extender"
	"github.com/weft-network/weft/test/poll"
)

// world is a namespace with a pool, an extender, and a kube-scheduler of the test's own.
type world struct {
	*testing.T
	name, folder string
}

func newWorld(t *testing.T, name string, ranges ...networkv1alpha1.IPPoolRange) *world {
	w := &world{t, name, t.TempDir()}
	w.do(api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	pool := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec = networkv1alpha1.IPPoolSpec{Location: networkv1alpha1.LocationNAT, Ranges: ranges, Namespaces: &metav1.LabelSelector{}}
	w.do(api.Create(t.Context(), pool))
	authority, err := pki.NewAuthority("weft-extender-ca", time.Now())
	w.do(err)
	pair, err := authority.Issue(pki.Subject{Name: "weft-extender", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}, time.Now())
	w.do(err)
	for file, text := range map[string][]byte{"ca.crt": authority.Cert, "tls.crt": pair.Cert, "tls.key": pair.Key} {
		w.do(os.WriteFile(filepath.Join(w.folder, file), text, 0o600))
	}
	return w
}

func (w *world) do(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func rangeOf(addresses, rack string) networkv1alpha1.IPPoolRange {
	r := networkv1alpha1.IPPoolRange{Addresses: addresses}
	if rack != "" {
		r.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": rack}}
	}
	return r
}

// replica is a running extender.
type replica struct {
	address string
	kill    context.CancelFunc
	ended   chan struct{}
}

// extender starts an extender at an address; an empty one is a free port. bind, if set, is called before each Binding:
// the Binding is posted only if it returns nil.
func (w *world) extender(address string, bind func(*replica, *corev1.Pod) error) *replica {
	w.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	w.do(err)
	options, err := extender.ManagerOptions()
	w.do(err)
	mgr, err := ctrl.NewManager(as("weft-extender"), options)
	w.do(err)
	ready := make(chan struct{})
	file := func(name string) string { return filepath.Join(w.folder, name) }
	e, err := extender.Setup(mgr, extender.Options{Listener: listener, Ready: func() { close(ready) },
		TLS: extender.TLS{PrivateKey: file("tls.key"), Certificate: file("tls.crt"), ClientCA: file("ca.crt")}})
	w.do(err)
	ctx, kill := context.WithCancel(context.Background())
	r := &replica{listener.Addr().String(), kill, make(chan struct{})}
	if post := e.Bind; bind != nil {
		e.Bind = func(ctx context.Context, pod *corev1.Pod, binding *corev1.Binding) error {
			if err := bind(r, pod); err != nil {
				return err
			}
			return post(ctx, pod, binding)
		}
	}
	go func() {
		defer close(r.ended)
		if err := mgr.Start(ctx); err != nil {
			w.Log("extender:", err)
		}
	}()
	w.Cleanup(r.stop)
	select {
	case <-ready:
	case <-r.ended:
		w.Fatal("the extender ended before it was ready")
	case <-time.After(patience):
		w.Fatal("the extender is not ready")
	}
	return r
}

func (r *replica) stop() {
	r.kill()
	<-r.ended
}

// scheduler starts a kube-scheduler with the configuration of config/scheduler, for pods that name it. Without an address
// it has no extender, as on a managed control plane.
func (w *world) scheduler(name, extenderAddress string) {
	w.Helper()
	text, err := os.ReadFile("../../config/scheduler/kube-scheduler.yaml")
	w.do(err)
	for from, to := range map[string]string{"CLUSTER-IP:9448": extenderAddress, "weft-extender.weft-system.svc": "127.0.0.1",
		"/etc/kubernetes/weft-extender/": w.folder + "/", "/etc/kubernetes/scheduler.conf": kubeconfig,
		"leaderElect: true": "leaderElect: false"} {
		if !strings.Contains(string(text), from) {
			w.Fatalf("config/scheduler/kube-scheduler.yaml has no %s", from)
		}
		text = []byte(strings.ReplaceAll(string(text), from, to))
	}
	var config map[string]any
	w.do(yaml.Unmarshal(text, &config))
	if extenderAddress == "" {
		delete(config, "extenders")
	}
	config["profiles"] = []map[string]any{{"schedulerName": name}}
	text, err = yaml.Marshal(config)
	w.do(err)
	file := filepath.Join(w.folder, name+".yaml")
	w.do(os.WriteFile(file, text, 0o600))
	log, err := os.Create(filepath.Join(w.folder, name+".log"))
	w.do(err)
	cmd := exec.Command(programs.Bin("kube-scheduler"), "--config", file, "--secure-port", "0", "-v", "3")
	cmd.Stdout, cmd.Stderr = log, log
	w.do(cmd.Start())
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
		if w.Failed() {
			text, _ := os.ReadFile(log.Name())
			w.Logf("log of kube-scheduler %s:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
}

// pod returns a pod that requests an address of the world's pool.
func (w *world) pod(name, scheduler string, change ...func(*corev1.Pod)) *corev1.Pod {
	one := corev1.ResourceList{networkv1alpha1.FloatingResource: resource.MustParse("1")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name,
		Annotations: map[string]string{networkv1alpha1.IPPoolAnnotation: w.name}},
		Spec: corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "c", Image: "i",
			Resources: corev1.ResourceRequirements{Requests: one, Limits: one}}}}}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// gated makes a pod without the resource, and with the scheduling gate.
func gated(p *corev1.Pod) {
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: networkv1alpha1.FloatingGate}}
}

// create creates pods.
func (w *world) create(pods ...*corev1.Pod) {
	w.Helper()
	for _, pod := range pods {
		w.do(api.Create(w.Context(), pod))
	}
}

// remove deletes pods at once, as if kubelet had ended them.
func (w *world) remove(pods ...*corev1.Pod) {
	w.Helper()
	for _, pod := range pods {
		w.do(api.Delete(w.Context(), pod, client.GracePeriodSeconds(0)))
	}
}

// await repeats a check until it passes.
func (w *world) await(check func() error) {
	w.Helper()
	w.do(poll.Slowly(w.Context(), patience, check))
}

// bound waits until a pod is bound to one of the nodes, and returns the address that it has. It must have exactly one.
func (w *world) bound(pod *corev1.Pod, nodes ...string) (address string) {
	w.Helper()
	w.await(func() error {
		if err := api.Get(w.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Spec.NodeName == "" {
			return fmt.Errorf("pod %s is not bound", pod.Name)
		}
		return nil
	})
	if !slices.Contains(nodes, pod.Spec.NodeName) {
		w.Errorf("pod %s is bound to %s, want one of %v", pod.Name, pod.Spec.NodeName, nodes)
	}
	held := w.held(pod.UID)
	if len(held) != 1 || pod.Annotations[networkv1alpha1.FloatingIPsAnnotation] != held[0] {
		w.Fatalf("pod %s has the addresses %v, and its annotation is %q", pod.Name, held, pod.Annotations[networkv1alpha1.FloatingIPsAnnotation])
	}
	return held[0]
}

// all returns the FloatingIPs of the world's pool.
func (w *world) all() []networkv1alpha1.FloatingIP {
	w.Helper()
	var list networkv1alpha1.FloatingIPList
	w.do(api.List(w.Context(), &list, client.MatchingLabels{networkv1alpha1.PoolLabel: w.name}))
	return list.Items
}

// held returns the addresses that a pod has.
func (w *world) held(pod types.UID) (addresses []string) {
	w.Helper()
	for _, f := range w.all() {
		if f.Spec.Holder != nil && f.Spec.Holder.PodUID == pod {
			addresses = append(addresses, string(f.Spec.Address))
		}
	}
	return addresses
}

// pending waits until an event says why kube-scheduler does not schedule a pod, with all texts.
func (w *world) pending(pod *corev1.Pod, texts ...string) {
	w.Helper()
	w.event(pod, "FailedScheduling", texts...)
}

// event waits until an event of a pod has all texts.
func (w *world) event(pod *corev1.Pod, reason string, texts ...string) {
	w.Helper()
	w.await(func() error {
		var list corev1.EventList
		if err := api.List(w.Context(), &list, client.InNamespace(w.name)); err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.InvolvedObject.Name != pod.Name || e.Reason != reason {
				continue
			}
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(e.Message, text) }) {
				return nil
			}
			seen = append(seen, e.Message)
		}
		return fmt.Errorf("no event of pod %s has %q: %q", pod.Name, texts, seen)
	})
}
