package operand_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	operands "github.com/weft-network/weft/controllers/operand"
	"github.com/weft-network/weft/pkg/member"
	"github.com/weft-network/weft/pkg/operand"
	"github.com/weft-network/weft/pkg/options"
	"github.com/weft-network/weft/pkg/pki"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/rbac"
)

const namespace = "default"

var (
	admin   *rest.Config
	product *rest.Config // with the rights of config/install
	api     client.Client
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "controllers/operand:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	programs, err := tools.DefaultCache()
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(programs.Bin("kube-apiserver")); err != nil {
		return 0, fmt.Errorf("%w: make it with: go run ./test/lab/cmd/weft-lab tools envtest", err)
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: filepath.Dir(programs.Bin("etcd")), CRDDirectoryPaths: []string{"../../config/crd/bases"}, ErrorIfCRDPathMissing: true}
	if admin, err = environment.Start(); err != nil {
		return 0, errors.Join(fmt.Errorf("start the API server: %w", err), environment.Stop())
	}
	defer func() { err = errors.Join(err, environment.Stop()) }()
	admin.QPS, admin.Burst = 1000, 1000
	managerOptions, err := operands.ManagerOptions(admin, options.Operands{Namespace: namespace, Identity: "scheme"})
	if err != nil {
		return 0, err
	}
	if api, err = client.New(admin, client.Options{Scheme: managerOptions.Scheme}); err != nil {
		return 0, err
	}
	if product, err = rbac.As(context.Background(), admin, "operands", namespace); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// writes counts requests that change something, events and leases left out.
type writes struct {
	next http.RoundTripper
	n    *atomic.Int64
}

func (w writes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/events") && !strings.Contains(r.URL.Path, "/leases") {
		w.n.Add(1)
	}
	return w.next.RoundTrip(r)
}

// start runs the product until stop is called, and returns the count of its writes.
func start(t *testing.T) (count *atomic.Int64, stop func()) {
	t.Helper()
	return startAs(t, "test")
}

// startAs runs a version of it.
func startAs(t *testing.T, version string) (count *atomic.Int64, stop func()) {
	t.Helper()
	return startWith(t, version, nil)
}

// startWith runs it where members of the databases are asked by a function of the test.
func startWith(t *testing.T, version string, ask func(context.Context, string, member.Identity, member.Order) (member.State, error)) (count *atomic.Int64, stop func()) {
	t.Helper()
	count = &atomic.Int64{}
	own := rest.CopyConfig(product)
	own.Wrap(func(next http.RoundTripper) http.RoundTripper { return writes{next, count} })
	managerOptions, err := operands.ManagerOptions(own, options.Operands{Namespace: namespace, Identity: t.Name(), Health: "0", Metrics: "0", LeaderElection: true})
	if err != nil {
		t.Fatal(err)
	}
	again := true
	managerOptions.Controller = config.Controller{SkipNameValidation: &again}
	mgr, err := ctrl.NewManager(own, managerOptions)
	if err != nil {
		t.Fatal(err)
	}
	if err := operands.Setup(mgr, operands.Options{Now: time.Now, Patience: time.Minute, Ask: ask, Facts: operand.Facts{Namespace: namespace, Image: "weft:" + version, Version: version, APIServerHost: "192.0.2.10", APIServerPort: "6443"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return count, stop
}

func eventually(t *testing.T, try func() error) {
	t.Helper()
	var err error
	for range 300 {
		if err = try(); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal(err)
}

func own(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// all expects every operand.
func all(ctx context.Context) error {
	var missing []error
	for name, object := range map[string]client.Object{
		"weft-central": &appsv1.StatefulSet{}, "weft-operator": &appsv1.Deployment{}, "weft-agent": &appsv1.DaemonSet{},
		"weft-ovs": &appsv1.DaemonSet{}, "weft-ovn-controller": &appsv1.DaemonSet{}} {
		missing = append(missing, api.Get(ctx, own(name), object))
	}
	for _, name := range operand.SecretNames() {
		missing = append(missing, api.Get(ctx, own(name), &corev1.Secret{}))
	}
	return errors.Join(missing...)
}

func toldOf(ctx context.Context, reason string) error {
	var told eventsv1.EventList
	if err := api.List(ctx, &told); err != nil {
		return err
	}
	for _, e := range told.Items {
		if e.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no event %s", reason)
}

func TestOperandsAreMadeAndKept(t *testing.T) {
	ctx := t.Context()
	external := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "weft-ovn"}}
	must(t, api.Create(ctx, external))
	for _, name := range []string{"n1", "n2"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(t, api.Create(ctx, n))
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2." + name[1:]}}
		must(t, api.Status().Update(ctx, n))
	}
	count, stop := start(t)
	cn := &networkv1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: networkv1alpha1.ClusterNetworkSpec{
		ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16"}}, ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"}}}
	must(t, api.Create(ctx, cn))

	// The databases are somebody else's.
	eventually(t, func() error { return toldOf(ctx, "ExternalDatabases") })
	if n := count.Load(); n != 0 {
		t.Fatalf("%d writes beside databases that run elsewhere", n)
	}
	must(t, api.Delete(ctx, external))
	eventually(t, func() error { return all(ctx) })
	eventually(t, func() error { return toldOf(ctx, "OperandApplied") })

	// What is taken away comes back, of the same authority.
	authority := &corev1.Secret{}
	must(t, api.Get(ctx, own("weft-nb-ca"), authority))
	must(t, api.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "weft-nb-tls"}}))
	must(t, api.Delete(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "weft-operator"}}))
	eventually(t, func() error { return all(ctx) })
	pair := &corev1.Secret{}
	must(t, api.Get(ctx, own("weft-nb-tls"), pair))
	if string(pair.Data["ca.crt"]) != string(authority.Data["tls.crt"]) {
		t.Error("the operator's new pair is of another authority")
	}

	// What is changed is put right.
	agent := &appsv1.DaemonSet{}
	must(t, api.Get(ctx, own("weft-agent"), agent))
	agent.Spec.Template.Spec.Containers[0].Image = "else:1"
	must(t, api.Update(ctx, agent))
	eventually(t, func() error {
		must(t, api.Get(ctx, own("weft-agent"), agent))
		if image := agent.Spec.Template.Spec.Containers[0].Image; image != "weft:test" {
			return fmt.Errorf("image %s", image)
		}
		return nil
	})

	// A restart writes nothing. It has looked when it puts right what was changed meanwhile, which is one write.
	stop()
	must(t, api.Get(ctx, own("weft-ovs"), agent))
	agent.Labels["app.kubernetes.io/component"] = "else"
	must(t, api.Update(ctx, agent))
	count, stop = start(t)
	eventually(t, func() error {
		must(t, api.Get(ctx, own("weft-ovs"), agent))
		if agent.Labels["app.kubernetes.io/component"] != "ovs" {
			return errors.New("the label is as somebody left it")
		}
		return nil
	})
	time.Sleep(time.Second) // what it might do besides
	if n := count.Load(); n != 1 {
		t.Errorf("%d writes after a restart, want 1", n)
	}

	// The node of the databases goes.
	must(t, api.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	eventually(t, func() error {
		central := &appsv1.StatefulSet{}
		must(t, api.Get(ctx, own("weft-central"), central))
		if node := central.Annotations[operand.AnnotationNode]; node != "n2" {
			return fmt.Errorf("the databases are on %s", node)
		}
		must(t, api.Get(ctx, own("weft-agent"), agent)) // the last
		for _, e := range agent.Spec.Template.Spec.Containers[0].Env {
			if e.Name == "WEFT_SB" && e.Value != "ssl:192.0.2.2:16642" {
				return fmt.Errorf("agents are told %s", e.Value)
			}
		}
		return toldOf(ctx, "DatabasesMoved")
	})

	removed(t, cn)
	stop()
}

// removed deletes the ClusterNetwork. The test is the controllers that are not here: of garbage and of DaemonSets.
func removed(t *testing.T, cn *networkv1alpha1.ClusterNetwork) {
	t.Helper()
	ctx := t.Context()
	user := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "user"}, Spec: corev1.PodSpec{NodeName: "n2", Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
	host := user.DeepCopy()
	host.Name, host.Spec.HostNetwork = "host", true
	must(t, api.Create(ctx, host))
	must(t, api.Create(ctx, user))
	must(t, api.Delete(ctx, cn))
	eventually(t, func() error { return toldOf(ctx, "PodsRemain") })
	must(t, all(ctx))
	must(t, api.Delete(ctx, user, client.GracePeriodSeconds(0)))
	workloads := map[string]client.Object{"weft-operator": &appsv1.Deployment{}, "weft-agent": &appsv1.DaemonSet{}, "weft-ovn-controller": &appsv1.DaemonSet{}}
	uninstall, switches := &appsv1.DaemonSet{}, &appsv1.DaemonSet{}
	collected(t, workloads, func() { // one after the other, and what takes the rest off the nodes waits for all of them
		if err := api.Get(ctx, own(operand.Uninstall), uninstall); !apierrors.IsNotFound(err) {
			t.Fatalf("%s beside what makes all anew: %v", operand.Uninstall, err)
		}
	})
	eventually(t, func() error { return api.Get(ctx, own(operand.Uninstall), uninstall) })
	report := func(ready int32) {
		t.Helper()
		must(t, api.Get(ctx, own(operand.Uninstall), uninstall))
		uninstall.Status = appsv1.DaemonSetStatus{ObservedGeneration: uninstall.Generation, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: ready}
		must(t, api.Status().Update(ctx, uninstall))
	}
	report(1)
	time.Sleep(500 * time.Millisecond)
	if must(t, api.Get(ctx, own("weft-ovs"), switches)); !switches.DeletionTimestamp.IsZero() {
		t.Fatal("Open vSwitch is removed before a node is done with it")
	}
	report(2)
	collected(t, map[string]client.Object{"weft-ovs": switches, operand.Uninstall: uninstall, operand.Central: &appsv1.StatefulSet{}}, func() {})
	eventually(t, func() error {
		if err := api.Get(ctx, types.NamespacedName{Name: "default"}, cn); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the ClusterNetwork is there: %w, %q", err, cn.Finalizers)
		}
		return nil
	})
	for _, name := range operand.SecretNames() {
		if err := api.Get(ctx, own(name), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("Secret %s: %v, want none", name, err)
		}
	}
}

// collected waits until each is being deleted, and lets it go as one whose pods have ended.
func collected(t *testing.T, workloads map[string]client.Object, between func()) {
	t.Helper()
	for name, w := range workloads {
		eventually(t, func() error {
			must(t, api.Get(t.Context(), own(name), w))
			if w.GetDeletionTimestamp().IsZero() {
				return fmt.Errorf("%s is not deleted", name)
			}
			return nil
		})
	}
	for _, w := range workloads {
		between()
		w.SetFinalizers(nil)
		must(t, api.Update(t.Context(), w))
	}
}

// request asks for a chassis' certificate with a token of a node, as a user of the namespace's ServiceAccounts.
func request(t *testing.T, account, node, commonName string, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: commonName}}, key)
	must(t, err)
	who := rest.CopyConfig(admin)
	who.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + account, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	if account == "administrator" {
		who.Impersonate = rest.ImpersonationConfig{UserName: "boss", Groups: []string{"system:masters", "system:authenticated"}}
	}
	if node != "" {
		who.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	c, err := client.New(who, client.Options{Scheme: api.Scheme()})
	must(t, err)
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "chassis-"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: pki.ChassisSigner, Usages: usages, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}
	must(t, c.Create(t.Context(), csr))
	return csr
}

func TestAChassisIsSignedForItsOwnNodeOnly(t *testing.T) {
	must(t, client.IgnoreAlreadyExists(api.Create(t.Context(), authoritySecret(t))))
	start(t)
	good := pki.ChassisUsages()
	for name, c := range map[string]struct {
		csr    *certificatesv1.CertificateSigningRequest
		signed bool
		why    string
	}{
		"its own":              {request(t, "weft-agent", "n1", "n1", good...), true, "n1"},
		"another node's":       {request(t, "weft-agent", "n1", "n2", good...), false, `common name "n2"`},
		"a token of no node":   {request(t, "weft-agent", "", "n1", good...), false, "the token is one of node"},
		"an administrator":     {request(t, "administrator", "n1", "n1", good...), false, "only system:serviceaccount:default:weft-agent may"},
		"for a server as well": {request(t, "weft-agent", "n1", "n1", append(good, certificatesv1.UsageServerAuth)...), false, "usages"},
	} {
		eventually(t, func() error {
			must(t, api.Get(t.Context(), client.ObjectKeyFromObject(c.csr), c.csr))
			if len(c.csr.Status.Certificate) == 0 && (len(c.csr.Status.Conditions) == 0 || c.signed) {
				return fmt.Errorf("%s: not decided", name)
			}
			return nil
		})
		if signed := len(c.csr.Status.Certificate) > 0; signed != c.signed {
			t.Errorf("%s: signed %t: %+v", name, signed, c.csr.Status.Conditions)
		}
		if !c.signed && (c.csr.Status.Conditions[0].Type != certificatesv1.CertificateDenied || !strings.Contains(c.csr.Status.Conditions[0].Message, c.why)) {
			t.Errorf("%s: %+v, want denied: %s", name, c.csr.Status.Conditions, c.why)
		}
	}
}

func authoritySecret(t *testing.T) *corev1.Secret {
	t.Helper()
	a, err := pki.NewAuthority("sb", time.Now())
	must(t, err)
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: operand.SouthboundAuthority}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": a.Cert, "tls.key": a.Key}}
}
