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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	operands "github.com/weft-network/weft/controllers/operand"
	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/install/pki"
	"github.com/weft-network/weft/pkg/install/render"
	"github.com/weft-network/weft/pkg/process/leadership"
	"github.com/weft-network/weft/pkg/process/options"
	"github.com/weft-network/weft/test/kubeapiserver"
	"github.com/weft-network/weft/test/poll"
	"github.com/weft-network/weft/test/rbac"
)

const namespace = "default"

var (
	admin   *rest.Config
	product *rest.Config // with the rights of config/install
	api     client.Client
)

func TestMain(m *testing.M) { kubeapiserver.Main(m, kubeapiserver.Options{Definitions: true}, prepare) }

func prepare(ctx context.Context, server *kubeapiserver.Server) error {
	admin = server.Config
	managerOptions, err := operands.ManagerOptions(options.Operands{Namespace: namespace})
	if err != nil {
		return err
	}
	if api, err = client.New(admin, client.Options{Scheme: managerOptions.Scheme}); err != nil {
		return err
	}
	product, err = rbac.As(ctx, admin, "operands", namespace)
	return err
}

// writes counts writing requests, except for events and leases.
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

// startAs runs a version of the product.
func startAs(t *testing.T, version string) (count *atomic.Int64, stop func()) {
	t.Helper()
	return startWith(t, version, nil)
}

// startWith runs a version of the product and passes the orders of databases' members to a function of the test.
func startWith(t *testing.T, version string, send func(context.Context, string, member.Identity,
	member.Order) (member.State, error)) (count *atomic.Int64, stop func()) {
	t.Helper()
	count = &atomic.Int64{}
	own := rest.CopyConfig(product)
	own.Wrap(func(next http.RoundTripper) http.RoundTripper { return writes{next, count} })
	lease := operands.Lease(options.Operands{Namespace: namespace, Identity: t.Name()})
	return count, startOn(t, own, lease, operands.Options{Now: time.Now, Patience: time.Minute, SendOrder: send,
		Facts: factsOf(version)}, func(ctrl.Manager) func(error) { return func(error) {} })
}

func factsOf(version string) render.Facts {
	return render.Facts{Namespace: namespace, Image: "weft:" + version, Version: version, APIServerHost: "192.0.2.10",
		APIServerPort: "6443"}
}

// startOn runs the product as operands.go does. seen is called with each of its managers, and the returned function
// when that has stopped.
func startOn(t *testing.T, config *rest.Config, lease leadership.Lease, o operands.Options,
	seen func(ctrl.Manager) func(error)) (stop func()) {
	t.Helper()
	managerOptions, err := operands.ManagerOptions(options.Operands{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	process, err := leadership.New(config, managerOptions, &lease, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- process.Run(ctx) }()
	go func() {
		ended <- process.Lead(ctx, func(mgr ctrl.Manager) (func(error), error) { return seen(mgr), operands.Setup(mgr, o) })
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func eventually(t *testing.T, try func() error) {
	t.Helper()
	poll.Eventually(t, time.Minute, try)
}

// awaitPass returns when the reconciler has completed a pass that began after the call. It changes a label of a
// DaemonSet and waits for the repair, twice. There is one worker and one key, so the pass of the second repair begins
// after the end of the first. awaitPass returns the number of repairs, each of which is one write of the reconciler.
func awaitPass(t *testing.T, daemonSet string) (repairs int64) {
	t.Helper()
	const label = "app.kubernetes.io/component"
	for range 2 {
		object := &appsv1.DaemonSet{}
		must(t, api.Get(t.Context(), own(daemonSet), object))
		before, want := object.DeepCopy(), object.Labels[label]
		object.Labels[label] = "else"
		must(t, api.Patch(t.Context(), object, client.MergeFrom(before)))
		eventually(t, func() error {
			must(t, api.Get(t.Context(), own(daemonSet), object))
			if have := object.Labels[label]; have != want {
				return fmt.Errorf("label %s of %s is %q, want %q", label, daemonSet, have, want)
			}
			return nil
		})
		repairs++
	}
	return repairs
}

func own(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// deleteNetwork deletes the ClusterNetwork and the workloads and Secrets made for it, as the next test expects.
func deleteNetwork(t *testing.T, cn *networkv1alpha1.ClusterNetwork) {
	t.Helper()
	ctx := t.Context()
	must(t, api.Get(ctx, client.ObjectKeyFromObject(cn), cn))
	cn.Finalizers = nil
	must(t, api.Update(ctx, cn))
	must(t, api.Delete(ctx, cn))
	for _, w := range []client.Object{&appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.Deployment{}, &corev1.Secret{}} {
		must(t, api.DeleteAllOf(ctx, w, client.InNamespace(namespace)))
	}
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
	for _, name := range render.SecretNames() {
		if name == render.RelaySecret {
			continue // exists only with relays
		}
		missing = append(missing, api.Get(ctx, own(name), &corev1.Secret{}))
	}
	return errors.Join(missing...)
}

func eventRecorded(ctx context.Context, reason string) error {
	var recorded eventsv1.EventList
	if err := api.List(ctx, &recorded); err != nil {
		return err
	}
	for _, e := range recorded.Items {
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
		ClusterNetwork: []networkv1alpha1.ClusterNetworkEntry{{CIDR: "10.244.0.0/16"}},
		ServiceNetwork: []networkv1alpha1.CIDR{"10.96.0.0/16"}}}
	must(t, api.Create(ctx, cn))

	// The databases run elsewhere.
	eventually(t, func() error { return eventRecorded(ctx, "ExternalDatabases") })
	if n := count.Load(); n != 0 {
		t.Fatalf("%d writes beside databases that run elsewhere", n)
	}
	must(t, api.Delete(ctx, external))
	eventually(t, func() error { return all(ctx) })
	eventually(t, func() error { return eventRecorded(ctx, "OperandApplied") })

	// Where Weft runs the databases, the ConfigMap changes nothing: what is deleted comes back.
	external.ResourceVersion = ""
	must(t, api.Create(ctx, external))
	must(t, api.Delete(ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "weft-agent"}}))
	eventually(t, func() error { return all(ctx) })
	must(t, api.Delete(ctx, external))

	// A deleted Secret is recreated with the same authority.
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

	// Changes are reverted.
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

	// A restart writes nothing but the repairs of this test.
	stop()
	count, stop = start(t)
	repairs := awaitPass(t, "weft-ovs")
	if n := count.Load(); n != repairs {
		t.Errorf("%d writes after a restart, want the %d repairs", n, repairs)
	}

	// The node of the databases is deleted.
	must(t, api.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	eventually(t, func() error {
		central := &appsv1.StatefulSet{}
		must(t, api.Get(ctx, own("weft-central"), central))
		if node := central.Annotations[render.AnnotationNode]; node != "n2" {
			return fmt.Errorf("the databases are on %s", node)
		}
		must(t, api.Get(ctx, own("weft-agent"), agent)) // the last operand
		for _, e := range agent.Spec.Template.Spec.Containers[0].Env {
			if e.Name == "WEFT_SB" && e.Value != "ssl:192.0.2.2:16642" {
				return fmt.Errorf("agents use %s", e.Value)
			}
		}
		return eventRecorded(ctx, "DatabasesMoved")
	})

	removed(t, cn, "n2")
	stop()
}

// request requests a chassis' certificate with a token of a node, as a user of the namespace's ServiceAccounts.
func request(t *testing.T, account, node, commonName string, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: commonName}}, key)
	must(t, err)
	who := rest.CopyConfig(admin)
	who.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + account,
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	if account == "administrator" {
		who.Impersonate = rest.ImpersonationConfig{UserName: "boss", Groups: []string{"system:masters", "system:authenticated"}}
	}
	if node != "" {
		who.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	c, err := client.New(who, client.Options{Scheme: api.Scheme()})
	must(t, err)
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "chassis-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: pki.ChassisSigner, Usages: usages,
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}
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
		"its own":            {request(t, "weft-agent", "n1", "n1", good...), true, "n1"},
		"another node's":     {request(t, "weft-agent", "n1", "n2", good...), false, `common name "n2"`},
		"a token of no node": {request(t, "weft-agent", "", "n1", good...), false, "the token belongs to node"},
		"an administrator": {request(t, "administrator", "n1", "n1", good...), false,
			"only system:serviceaccount:default:weft-agent may"},
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
		if !c.signed && (c.csr.Status.Conditions[0].Type != certificatesv1.CertificateDenied ||
			!strings.Contains(c.csr.Status.Conditions[0].Message, c.why)) {
			t.Errorf("%s: %+v, want denied: %s", name, c.csr.Status.Conditions, c.why)
		}
	}
}

func authoritySecret(t *testing.T) *corev1.Secret {
	t.Helper()
	a, err := pki.NewAuthority("sb", time.Now())
	must(t, err)
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: render.SouthboundAuthority},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": a.Cert, "tls.key": a.Key}}
}
