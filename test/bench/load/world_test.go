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
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/pkg/options"
	"github.com/weft-network/weft/test/bench/figures"
	"github.com/weft-network/weft/test/bench/probe"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/rbac"
)

// user is who the controller is to the API server; the audit log holds what it does.
const user = "system:serviceaccount:default:weft-operator"

// world is one cluster: servers of its own, and one controller.
type world struct {
	*testing.T
	dir        string
	api        *kubernetes.Clientset
	own        client.Client // of Weft's own kinds
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
	w.look()
	for _, name := range []string{namespace, alone} {
		_, err := w.api.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		w.must(err)
	}
	return w
}

// shortDir is for sockets, whose paths have at most 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// startAPI starts etcd and the API server and makes the controller's user.
func (w *world) startAPI() *rest.Config {
	w.Helper()
	programs, err := tools.DefaultCache()
	w.must(err)
	source, err := tools.SourceRoot()
	w.must(err)
	w.must(os.WriteFile(filepath.Join(w.dir, "policy.yaml"), fmt.Appendf(nil, policy, user), 0o600))
	environment := &envtest.Environment{
		BinaryAssetsDirectory: filepath.Dir(programs.Bin("etcd")),
		CRDDirectoryPaths:     []string{filepath.Join(source, "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: 2 * time.Minute, // it takes 5 s on a machine that has nothing else to do
	}
	environment.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.96.0.0/16").
		Set("audit-policy-file", filepath.Join(w.dir, "policy.yaml")).Set("audit-log-path", filepath.Join(w.dir, "audit.log")).
		Set("audit-log-mode", "blocking")
	w.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			w.Error(err)
		}
	})
	config, err := environment.Start()
	w.must(err)
	children, err := childrenOf(os.Getpid())
	w.must(err)
	w.pids = map[string]int{"etcd": children["etcd"], "kube-apiserver": children["kube-apiserver"]}
	_, err = rbac.As(w.Context(), config, "operator", "default")
	w.must(err)
	operator, err := environment.AddUser(envtest.User{Name: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}, nil)
	w.must(err)
	text, err := operator.KubeConfig()
	w.must(err)
	w.kubeconfig = filepath.Join(w.dir, "kubeconfig")
	w.must(os.WriteFile(w.kubeconfig, text, 0o600))
	return config
}

func (w *world) clients(config *rest.Config) {
	w.Helper()
	managerOptions, err := controllers.ManagerOptions(options.Operator{})
	w.must(err)
	w.own, err = client.New(config, client.Options{Scheme: managerOptions.Scheme})
	w.must(err)
	binary := rest.CopyConfig(config)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	w.api, err = kubernetes.NewForConfig(binary)
	w.must(err)
}

// look begins to observe the database.
func (w *world) look() {
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

// mark is where a cost begins.
type mark struct {
	cpu  map[string]time.Duration
	sent float64
}

// begin is the begin of a cost: what logs hold is forgotten.
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

// settled is the cost from the mark until the controller, and northd if it is there, are at rest; that of the other servers ends now, since they also
// work for nobody.
func (w *world) settled(m mark) figures.Cost {
	w.Helper()
	used := w.cpu()
	w.rest()
	for _, late := range w.follows() {
		used[late] = w.cpu()[late]
	}
	written, err := w.log.next()
	w.must(err)
	asked, err := w.audit.next()
	w.must(err)
	if len(asked.what) > 0 {
		w.Logf("the controller wrote %v", asked.what)
	}
	cost := figures.Cost{CPUms: map[string]float64{}, Transactions: float64(written.transactions), Rows: float64(written.rows),
		Reads: float64(asked.reads), Writes: float64(asked.writes), Sent: w.sent() - m.sent}
	for name, spent := range used {
		cost.CPUms[name] = figures.Milliseconds(spent - m.cpu[name])
	}
	return cost
}

// rest waits until neither the database's log grows nor the controller or northd works: status counts come 2 s late.
func (w *world) rest() {
	w.Helper()
	const quiet, idle = 2500 * time.Millisecond, 100 * time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		size, used := w.logSize(), w.busy()
		select {
		case <-time.After(quiet): // that nothing happens is no event
		case <-w.Context().Done():
		}
		if w.logSize()-size < 2000 && w.busy()-used < idle { // a heartbeat is there each 5 s
			return
		}
	}
	w.Fatalf("the controller is not at rest after %s", patience)
}

// busy is the CPU time of those who may have work left.
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

// each calls do for every number from first on, by so many clients at once.
func (w *world) each(first, n int, do func(ctx context.Context, i int) error) {
	w.Helper()
	w.must(inParallel(w.Context(), first, n, do))
}
