package render

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/weft-network/weft/pkg/install/pki"
)

// nodeOfToken is the key under which the API server reports the node of a ServiceAccount token.
const nodeOfToken = "authentication.kubernetes.io/node-name"

// AgentAccount is the ServiceAccount of Weft's pods on nodes.
const AgentAccount = "weft-agent"

// ChassisRequest parses a node's request for a chassis certificate. It returns an error if the request must not be
// signed: a node may only request a certificate of its own name.
func ChassisRequest(spec certificatesv1.CertificateSigningRequestSpec, namespace string) (*x509.CertificateRequest, error) {
	if want := "system:serviceaccount:" + namespace + ":" + AgentAccount; spec.Username != want {
		return nil, fmt.Errorf("requested by %s: only %s may request a chassis certificate", spec.Username, want)
	}
	block, _ := pem.Decode(spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, fmt.Errorf("the request is not a PEM block of type CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if err := request.CheckSignature(); err != nil {
		return nil, err
	}
	if node := spec.Extra[nodeOfToken]; len(node) != 1 || node[0] == "" || request.Subject.CommonName != node[0] {
		return nil, fmt.Errorf("common name %q: the token belongs to node %q", request.Subject.CommonName, []string(node))
	}
	have, want := slices.Sorted(slices.Values(spec.Usages)), slices.Sorted(slices.Values(pki.ChassisUsages()))
	if !slices.Equal(have, want) {
		return nil, fmt.Errorf("usages %q, want %q", have, want)
	}
	return request, nil
}

// ChassisValidity returns the lifetime of the certificate: the requested lifetime, at most pki.LeafValidity.
func ChassisValidity(spec certificatesv1.CertificateSigningRequestSpec) time.Duration {
	if spec.ExpirationSeconds == nil {
		return pki.LeafValidity
	}
	return min(time.Duration(*spec.ExpirationSeconds)*time.Second, pki.LeafValidity)
}
