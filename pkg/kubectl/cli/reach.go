package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// patience is how long the API server may take to begin an answer. The API server itself gives up a request after the
// same time.
const patience = time.Minute

var errSilent = fmt.Errorf("no answer within %s", patience)

// impatient fails a request whose answer does not begin within patience or before the command ends, because not every
// library passes the command's context on. The rest of an answer, such as a watch or a log, may take any time.
type impatient struct {
	next    http.RoundTripper
	command context.Context
}

// RoundTrip implements http.RoundTripper.
func (i impatient) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context()) // the answer is read under the request's own context
	timer := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer timer.Stop()
	stop := context.AfterFunc(i.command, func() { cancel(i.command.Err()) })
	defer stop()
	answer, err := i.next.RoundTrip(request.WithContext(ctx))
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return answer, err
}

// WrappedRoundTripper returns the wrapped round tripper for client-go.
func (i impatient) WrappedRoundTripper() http.RoundTripper { return i.next }

// explain replaces the text of errors that do not explain themselves. A ctx that has ended was ended by a signal.
func explain(ctx context.Context, err error) error {
	failed, ok := errors.AsType[*url.Error](err)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		if ok || err.Error() == context.Canceled.Error() {
			return errors.New("interrupted")
		}
		return fmt.Errorf("interrupted: %w", err)
	}
	if ok {
		server := "the API server"
		if at, err := url.Parse(failed.URL); err == nil {
			server += " " + at.Scheme + "://" + at.Host
		}
		if why := certificateFault(failed.Err); why != "" {
			return fmt.Errorf("cannot trust %s: %w: %s%s", server, failed.Err, why, throughProxy(failed.URL, http.ProxyFromEnvironment))
		}
		return fmt.Errorf("cannot reach %s: %w (--kubeconfig, --context and --server select another)", server, failed.Err)
	}
	if strings.Contains(err.Error(), "error dialing backend: ") && strings.Contains(err.Error(), "x509: ") {
		return fmt.Errorf("%w; the API server does not trust the certificate of the kubelet on the pod's node: kubectl exec and logs fail "+
			"there, too", err)
	}
	if lacksWeft(err) {
		return errors.New("the cluster does not have Weft's kinds: install Weft with kubectl apply -f dist/install.yaml, " +
			"or select another cluster with --context")
	}
	if role := missingRole(err); role != "" {
		return fmt.Errorf("%w; %s", err, role)
	}
	return err
}

// certificateFault says what is wrong with the API server's certificate, and what to do. It is empty for other errors.
func certificateFault(err error) string {
	if fault, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("the certificate is not for %s: use --server with a name or address of the certificate, or "+
			"--tls-server-name with one of its names", fault.Host)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the kubeconfig's certificate-authority did not issue it: the cluster was made anew, or another server has the address; " +
			"take the cluster's present kubeconfig, or select another with --kubeconfig or --context"
	}
	if fault, ok := errors.AsType[x509.CertificateInvalidError](err); ok && fault.Reason == x509.Expired {
		return "compare the clock of this machine with the certificate's dates, and renew an expired certificate"
	}
	return ""
}

// throughProxy names the proxy of the environment through which a request to a URL goes, which may answer with a certificate of its own.
// It is empty without a proxy.
func throughProxy(to string, proxyOf func(*http.Request) (*url.URL, error)) string {
	at, err := url.Parse(to)
	if err != nil {
		return ""
	}
	proxy, err := proxyOf(&http.Request{URL: at})
	if err != nil || proxy == nil {
		return ""
	}
	return fmt.Sprintf("; the request goes through the proxy %s of HTTPS_PROXY, so add %s to NO_PROXY if the proxy answers itself",
		proxy.Host, at.Hostname())
}

// refused matches the words of the API server about a right that a user lacks.
var refused = regexp.MustCompile(`cannot (?:get|list|watch) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]*)")?`)

// readerResources are the resources of the Role weft-reader in Weft's namespace.
var readerResources = []string{"pods", "pods/log", "deployments", "daemonsets", "statefulsets", "leases"}

// missingRole names the role of Weft that grants a right to read, or "".
func missingRole(err error) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	found := refused.FindStringSubmatch(err.Error())
	if found == nil {
		return ""
	}
	switch resource, group, namespace := found[1], found[2], found[3]; {
	case namespace == "" && (group == networkv1alpha1.GroupName || resource == "nodes" || group == "policy.networking.k8s.io"):
		return "the ClusterRole weft-reader grants it: kubectl create clusterrolebinding weft-readers --clusterrole=weft-reader --user=USER"
	case namespace != "" && slices.Contains(readerResources, resource):
		return fmt.Sprintf("in Weft's namespace the Role weft-reader grants it: kubectl -n %s create rolebinding weft-readers "+
			"--role=weft-reader --user=USER", namespace)
	}
	return "docs/user/plugin.md, Rights, has the roles of each command"
}

// lacksWeft reports whether err means that the API server does not have Weft's kinds.
func lacksWeft(err error) bool {
	if none, ok := errors.AsType[*meta.NoKindMatchError](err); ok {
		return none.GroupKind.Group == networkv1alpha1.GroupName
	}
	none, ok := errors.AsType[*meta.NoResourceMatchError](err)
	return ok && none.PartialResource.Group == networkv1alpha1.GroupName
}
