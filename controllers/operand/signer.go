package operand

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-network/weft/pkg/install/render"
	"github.com/weft-network/weft/pkg/process/trigger"
)

// Signer handles the requests of nodes for the certificates of their chassis.
type Signer struct {
	Client    client.Client
	Namespace string
	Now       func() time.Time
}

func (s *Signer) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("chassis").For(&certificatesv1.CertificateSigningRequest{}).
		Complete(trigger.QuietConflicts(s))
}

// Reconcile implements reconcile.Reconciler. It leaves the requests in place; the controller manager removes old
// ones.
func (s *Signer) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := s.Client.Get(ctx, request.NamespacedName, csr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if len(csr.Status.Certificate) > 0 || is(csr, certificatesv1.CertificateDenied) || is(csr, certificatesv1.CertificateFailed) {
		return reconcile.Result{}, nil
	}
	wanted, err := render.ChassisRequest(csr.Spec, s.Namespace)
	if err != nil {
		return reconcile.Result{}, s.decide(ctx, csr, certificatesv1.CertificateDenied, "NotThisNode", err.Error())
	}
	if !is(csr, certificatesv1.CertificateApproved) { // signed when the approval arrives as an event
		return reconcile.Result{}, s.decide(ctx, csr, certificatesv1.CertificateApproved, "ThisNode", "requested with a token of the node")
	}
	secret := &corev1.Secret{}
	if err := s.Client.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: render.SouthboundAuthority}, secret); err != nil {
		return reconcile.Result{}, err
	}
	authority, err := render.Authority(secret)
	if err != nil {
		return reconcile.Result{}, err
	}
	if csr.Status.Certificate, err = authority.SignChassis(wanted, s.Now(), render.ChassisValidity(csr.Spec)); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, s.Client.Status().Update(ctx, csr)
}

// decide adds a condition through the subresource that requires the right to approve for the signer.
func (s *Signer) decide(ctx context.Context, csr *certificatesv1.CertificateSigningRequest,
	decision certificatesv1.RequestConditionType, reason, message string) error {
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: decision, Status: corev1.ConditionTrue, Reason: reason, Message: message})
	return s.Client.SubResource("approval").Update(ctx, csr)
}

func is(csr *certificatesv1.CertificateSigningRequest, condition certificatesv1.RequestConditionType) bool {
	for _, c := range csr.Status.Conditions {
		if c.Type == condition {
			return true
		}
	}
	return false
}
