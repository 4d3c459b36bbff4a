package addressapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/install/pki"
	"github.com/weft-network/weft/pkg/servers/addressapi"
	"github.com/weft-network/weft/test/poll"
)

// world is a namespace, a running API, and users.
type world struct {
	*testing.T
	name, folder, url string
	client            *http.Client
	// all is the token of a user with all rights.
	all string
}

func newWorld(t *testing.T, name string, audiences ...string) *world {
	w := &world{T: t, name: name, folder: t.TempDir()}
	w.do(api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	w.certify()
	w.serve(audiences)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Cert)
	w.client = &http.Client{Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	t.Cleanup(w.client.CloseIdleConnections)
	w.all = w.user("all", rule("ippools", []string{"*"}), rule("floatingips", []string{"*"}))
	return w
}

func (w *world) do(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// eventually waits until a check passes.
func (w *world) eventually(check func() error) {
	w.Helper()
	w.do(poll.Wait{Timeout: patience, Interval: poll.Interval}.Until(w.Context(), check))
}

// certify writes a new certificate.
func (w *world) certify() {
	w.Helper()
	pair, err := authority.Issue(pki.Subject{Name: "weft-api", Addresses: []netip.Addr{loopback}}, time.Now())
	w.do(err)
	w.do(os.WriteFile(filepath.Join(w.folder, "tls.crt"), pair.Cert, 0o600))
	w.do(os.WriteFile(filepath.Join(w.folder, "tls.key"), pair.Key, 0o600))
}

// serve runs the API with the rights that its manifests give, until the test ends.
func (w *world) serve(audiences []string) {
	w.Helper()
	options, err := addressapi.ManagerOptions()
	w.do(err)
	mgr, err := ctrl.NewManager(as("weft-api"), options)
	w.do(err)
	listener, err := (&net.ListenConfig{}).Listen(w.Context(), "tcp", "127.0.0.1:0")
	w.do(err)
	ready := make(chan struct{})
	w.do(addressapi.Setup(mgr, addressapi.Settings{Listener: listener, Audiences: audiences, Ready: func() { close(ready) },
		Certificate: &addressapi.Certificate{PrivateKey: filepath.Join(w.folder, "tls.key"), Certificate: filepath.Join(w.folder, "tls.crt")}}))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.Error("the API ended with", err)
		}
	})
	w.url = "https://" + listener.Addr().String()
	select {
	case <-ready:
	case <-time.After(patience):
		w.Fatal("the API is not ready")
	}
}

// user creates a ServiceAccount with rights, and returns its token when the rights are in force.
func (w *world) user(name string, rules ...rbacv1.PolicyRule) string {
	w.Helper()
	full := w.name + "-" + name
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	w.do(api.Create(w.Context(), account))
	w.do(api.Create(w.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: full}, Rules: rules}))
	w.do(api.Create(w.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: full},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: full},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.name, Name: name}}}))
	for _, r := range rules {
		w.eventually(func() error { return w.grants("system:serviceaccount:"+w.name+":"+name, r) })
	}
	return w.token(name)
}

// grants returns an error until the API server grants a user the first right of a rule.
func (w *world) grants(user string, r rbacv1.PolicyRule) error {
	needed := &authorizationv1.ResourceAttributes{Group: r.APIGroups[0], Resource: r.Resources[0], Verb: r.Verbs[0]}
	if len(r.ResourceNames) > 0 {
		needed.Name = r.ResourceNames[0]
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: needed}}
	if err := api.Create(w.Context(), review); err != nil {
		return err
	}
	if !review.Status.Allowed {
		return fmt.Errorf("user %s is not granted %v yet", user, needed)
	}
	return nil
}

func (w *world) token(name string, audiences ...string) string {
	w.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	w.do(api.SubResource("token").Create(w.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}, request))
	return request.Status.Token
}

// response is a response of the API.
type response struct {
	status int
	header http.Header
	text   []byte
}

// into decodes the body.
func (r response) into(w *world, to any) {
	w.Helper()
	decoder := json.NewDecoder(bytes.NewReader(r.text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		w.Fatalf("status %d with body %s: %v", r.status, r.text, err)
	}
}

// call sends a request with a JSON body, nil for none.
func (w *world) call(token, method, path string, body any) response {
	w.Helper()
	var text io.Reader = http.NoBody
	if raw, ok := body.(string); ok {
		text = strings.NewReader(raw)
	} else if body != nil {
		encoded, err := json.Marshal(body)
		w.do(err)
		text = bytes.NewReader(encoded)
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		header.Set("Content-Type", "application/json")
	}
	r, err := w.send(method, path, header, text)
	w.do(err)
	return r
}

func (w *world) send(method, path string, header http.Header, body io.Reader) (r response, err error) {
	request, err := http.NewRequestWithContext(context.Background(), method, w.url+path, body)
	if err != nil {
		return r, err
	}
	request.Header = header
	reply, err := w.client.Do(request)
	if err != nil {
		return r, err
	}
	defer reply.Body.Close()
	r = response{status: reply.StatusCode, header: reply.Header}
	r.text, err = io.ReadAll(reply.Body)
	return r, err
}

// wants checks the status, and that the body contains all texts.
func (w *world) wants(r response, status int, texts ...string) response {
	w.Helper()
	if r.status != status {
		w.Errorf("status %d, not %d: %s", r.status, status, r.text)
	}
	for _, text := range texts {
		if !strings.Contains(string(r.text), text) {
			w.Errorf("the body lacks %q: %s", text, r.text)
		}
	}
	return r
}

// refused checks the status of an error, and the field or the parameter that it names.
func (w *world) refused(r response, status int, where string) addressapi.Problem {
	w.Helper()
	var p addressapi.Problem
	r.into(w, &p)
	if r.status != status || p.Status != status || r.header.Get("Content-Type") != "application/problem+json" {
		w.Errorf("status %d with body %s, not %d", r.status, r.text, status)
	}
	for _, field := range p.Errors {
		if field.Pointer+field.Parameter == where {
			return p
		}
	}
	if where != "" {
		w.Errorf("the error does not name %s: %s", where, r.text)
	}
	return p
}

// pool creates a NAT pool.
func (w *world) pool(name string, ranges ...string) {
	w.Helper()
	pool := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec = networkv1alpha1.IPPoolSpec{Location: networkv1alpha1.LocationNAT, Namespaces: &metav1.LabelSelector{}}
	for _, r := range ranges {
		pool.Spec.Ranges = append(pool.Spec.Ranges, networkv1alpha1.IPPoolRange{Addresses: r})
	}
	w.do(api.Create(w.Context(), pool))
	w.Cleanup(func() { w.deletePool(pool) })
}

// deletePool confirms the deletion of a pool that may have addresses, and deletes it.
func (w *world) deletePool(pool *networkv1alpha1.IPPool) {
	w.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"network.weft.dev/remove":"`+pool.Name+`"}}}`))
	if api.Patch(context.Background(), pool, patch) == nil {
		w.do(client.IgnoreNotFound(api.Delete(context.Background(), pool)))
	}
}

// hold writes a FloatingIP as the operator does. Without a holder it is free.
func (w *world) hold(pool, address string, holder *networkv1alpha1.FloatingIPHolder) *networkv1alpha1.FloatingIP {
	w.Helper()
	f := &networkv1alpha1.FloatingIP{ObjectMeta: metav1.ObjectMeta{
		Name: networkv1alpha1.FloatingIPName(netip.MustParseAddr(address)), Labels: map[string]string{networkv1alpha1.PoolLabel: pool}}}
	f.Spec = networkv1alpha1.FloatingIPSpec{Address: networkv1alpha1.EgressAddress(address), Pool: pool, Holder: holder}
	w.do(operator.Create(w.Context(), f))
	w.Cleanup(func() { w.do(client.IgnoreNotFound(operator.Delete(context.Background(), f))) })
	return f
}

// kept is a holder that keeps its address without a pod until a person releases it.
func (w *world) kept(workload, pod string) *networkv1alpha1.FloatingIPHolder {
	return &networkv1alpha1.FloatingIPHolder{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: w.name, Name: workload, Pod: pod,
		ReleasePolicy: networkv1alpha1.ReleaseNever, Since: metav1.NewTime(time.Now().Truncate(time.Second))}
}

// used is a holder whose pod runs.
func (w *world) used(workload, pod string) (*networkv1alpha1.FloatingIPHolder, *corev1.Pod) {
	w.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: pod},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	w.do(api.Create(w.Context(), p))
	holder := w.kept(workload, pod)
	holder.PodUID, holder.Node = p.UID, "n1"
	return holder, p
}

// listed waits until the API lists as many addresses.
func (w *world) listed(query string, count int) addressapi.AddressPage {
	w.Helper()
	var page addressapi.AddressPage
	w.eventually(func() error {
		page = addressapi.AddressPage{}
		w.wants(w.call(w.all, "GET", "/v1/addresses?"+query, nil), http.StatusOK).into(w, &page)
		if page.Total != count {
			return errCount{page.Total, count}
		}
		return nil
	})
	return page
}
