package operand

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/weft-network/weft/pkg/pki"
)

// nodeOfToken is where the API server says which node a ServiceAccount's token was made for.
const nodeOfToken = "authentication.kubernetes.io/node-name"

// AgentAccount is the ServiceAccount of what runs on nodes.
const AgentAccount = "weft-agent"

// ChassisRequest reads what a node asks for. The error says why it must not be signed: nobody gets a certificate of another node's name.
func ChassisRequest(spec certificatesv1.CertificateSigningRequestSpec, namespace string) (*x509.CertificateRequest, error) {
	if want := "system:serviceaccount:" + namespace + ":" + AgentAccount; spec.Username != want {
		return nil, fmt.Errorf("%s asks for it: only %s may", spec.Username, want)
	}
	block, _ := pem.Decode(spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, fmt.Errorf("the request is no PEM block of type CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if err := request.CheckSignature(); err != nil {
		return nil, err
	}
	if node := spec.Extra[nodeOfToken]; len(node) != 1 || node[0] == "" || request.Subject.CommonName != node[0] {
		return nil, fmt.Errorf("common name %q: the token is one of node %q", request.Subject.CommonName, []string(node))
	}
	if have, want := slices.Sorted(slices.Values(spec.Usages)), slices.Sorted(slices.Values(pki.ChassisUsages())); !slices.Equal(have, want) {
		return nil, fmt.Errorf("usages %q, want %q", have, want)
	}
	return request, nil
}

// ChassisValidity is how long the certificate shall be good.
func ChassisValidity(spec certificatesv1.CertificateSigningRequestSpec) time.Duration {
	if spec.ExpirationSeconds == nil {
		return pki.LeafValidity
	}
	return min(time.Duration(*spec.ExpirationSeconds)*time.Second, pki.LeafValidity)
}
