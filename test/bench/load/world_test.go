//go:build e2e

package load

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/test/bench/figures"
	"github.com/weft-network/weft/test/bench/probe"
	"github.com/weft-network/weft/test/kubeapiserver"
	"github.com/weft-network/weft/test/rbac"
)

// user is the controller's user name. The audit log contains its calls.
const user = "system:serviceaccount:default:weft-operator"

// world is one cluster with its own servers, and one controller.
type world struct {
	*testing.T
	dir        string
	api        *kubernetes.Clientset
	own        client.Client // for Weft's own kinds
	kubeconfig string        // the controller's
	nb         northbound
	south      *southbound // nil: without agents
	seen       *observer
	log        *dbLog
	audit      *auditLog
	pids       map[string]int
	controller *controller
}

// newWorld starts the servers.
func newWorld(t *testing.T, raft bool) *world {
	t.Helper()
	w := &world{T: t, dir: shortDir(t)}
	config := w.startAPI()
	config.QPS = -1
	w.clients(config)
	w.nb = startNorthbound(t, raft)
	maps.Copy(w.pids, w.nb.pids())
	w.follow()
	w.log, w.audit = &dbLog{path: w.nb.file()}, &auditLog{path: filepath.Join(w.dir, "audit.log")}
	w.startObserver()
	names := []string{alone}
	for i := range *namespaces {
		names = append(names, namespaceOf(i))
	}
	for _, name := range names {
		_, err := w.api.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		w.must(err)
	}
	return w
}

// shortDir returns a folder for sockets, whose paths have at most 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// startAPI starts etcd and the API server and creates the controller's user.
func (w *world) startAPI() *rest.Config {
	w.Helper()
	w.must(os.WriteFile(filepath.Join(w.dir, "policy.yaml"), fmt.Appendf(nil, policy, user), 0o600))
	server := kubeapiserver.New(w, kubeapiserver.Options{Definitions: true, Flags: map[string]string{
		"service-cluster-ip-range": "10.96.0.0/16", "audit-policy-file": filepath.Join(w.dir, "policy.yaml"),
		"audit-log-path": filepath.Join(w.dir, "audit.log"), "audit-log-mode": "blocking"}})
	children, err := childrenOf(os.Getpid())
	w.must(err)
	w.pids = map[string]int{"etcd": children["etcd"], "kube-apiserver": children["kube-apiserver"]}
	_, err = rbac.As(w.Context(), server.Config, "operator", "default")
	w.must(err)
	w.kubeconfig, err = server.Kubeconfig(user, "system:serviceaccounts", "system:authenticated")
	w.must(err)
	return server.Config
}

func (w *world) clients(config *rest.Config) {
	w.Helper()
	managerOptions, err := controllers.ManagerOptions()
	w.must(err)
	w.own, err = client.New(config, client.Options{Scheme: managerOptions.Scheme})
	w.must(err)
	binary := rest.CopyConfig(config)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	w.api, err = kubernetes.NewForConfig(binary)
	w.must(err)
}

// startObserver starts observing the database.
func (w *world) startObserver() {
	w.Helper()
	if w.seen != nil {
		w.seen.Close()
	}
	var err error
	w.seen, err = observe(w.nb.observed())
	w.must(err)
	w.Cleanup(w.seen.Close)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// mark is the start of a cost measurement.
type mark struct {
	cpu  map[string]time.Duration
	sent float64
}

// begin starts a cost measurement. It skips what the logs contain so far.
func (w *world) begin() mark {
	w.Helper()
	_, err := w.log.next()
	w.must(err)
	_, err = w.audit.next()
	w.must(err)
	return mark{w.cpu(), w.sent()}
}

func (w *world) cpu() map[string]time.Duration {
	w.Helper()
	used := map[string]time.Duration{}
	for name, pid := range w.pids {
		spent, err := probe.CPU(pid)
		w.must(err)
		used[name] = spent
	}
	return used
}

// settled returns the cost from the mark until the controller, and northd if it runs, are idle. The cost of the
// other servers ends now, because they also work without a cause.
func (w *world) settled(m mark) figures.Cost {
	w.Helper()
	used := w.cpu()
	w.rest()
	for _, late := range w.follows() {
		used[late] = w.cpu()[late]
	}
	written, err := w.log.next()
	w.must(err)
	made, err := w.audit.next()
	w.must(err)
	if len(made.what) > 0 {
		w.Logf("the controller wrote %v", made.what)
	}
	cost := figures.Cost{CPUms: map[string]float64{}, Transactions: float64(written.transactions), Rows: float64(written.rows),
		Reads: float64(made.reads), Writes: float64(made.writes), Sent: w.sent() - m.sent}
	for name, spent := range used {
		cost.CPUms[name] = figures.Milliseconds(spent - m.cpu[name])
	}
	return cost
}

// rest waits until the database's log stops growing and the controller and northd are idle. Counts in a status are 2
// s late.
func (w *world) rest() {
	w.Helper()
	const quiet, idle = 2500 * time.Millisecond, 100 * time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		size, used := w.logSize(), w.busy()
		select {
		case <-time.After(quiet): // idleness has no event
		case <-w.Context().Done():
		}
		if w.logSize()-size < 2000 && w.busy()-used < idle { // a heartbeat is written every 5 s
			return
		}
	}
	w.Fatalf("the controller is not at rest after %s", patience)
}

// busy returns the CPU time of the processes that may still be busy.
func (w *world) busy() (used time.Duration) {
	w.Helper()
	now := w.cpu()
	for _, late := range w.follows() {
		used += now[late]
	}
	return used
}

func (w *world) logSize() int64 {
	w.Helper()
	info, err := os.Stat(w.nb.file())
	w.must(err)
	return info.Size()
}

// each calls do for n numbers from first on, from several clients in parallel.
func (w *world) each(first, n int, do func(ctx context.Context, i int) error) {
	w.Helper()
	w.must(inParallel(w.Context(), first, n, do))
}
