package cli

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/kubectl/galaxy"
)

// operatorAccount is the operator's service account.
const operatorAccount = "weft-operator"

// operatorsClient returns a client that impersonates the operator, which alone names the holders of addresses.
func (c *cluster) operatorsClient() (client.Client, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + c.namespace + ":" + operatorAccount}
	scheme := runtime.NewScheme()
	if err := networkv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// importer creates IPPools and FloatingIPs.
type importer struct {
	api client.Client
	// asOperator writes FloatingIPs.
	asOperator client.Client
	done       imported
}

// imported counts objects.
type imported struct{ pools, locks, existed int }

// apply creates the IPPools closed, so that no pod gets an address that another has with Galaxy. It opens them when all
// FloatingIPs exist.
func (i *importer) apply(ctx context.Context, result galaxy.Result) (imported, error) {
	var open []networkv1alpha1.IPPool
	for n := range result.Pools {
		is, err := i.closed(ctx, &result.Pools[n])
		if err != nil {
			return i.done, err
		}
		if is {
			open = append(open, result.Pools[n])
		}
	}
	for n := range result.FloatingIPs {
		if err := i.lock(ctx, &result.FloatingIPs[n]); err != nil {
			return i.done, err
		}
	}
	for n := range open {
		if err := i.open(ctx, &open[n]); err != nil {
			return i.done, err
		}
	}
	return i.done, nil
}

// closed creates an IPPool without namespaces and size. It reports whether the IPPool is to be opened: it is not if it
// existed as wanted.
func (i *importer) closed(ctx context.Context, want *networkv1alpha1.IPPool) (bool, error) {
	pool := want.DeepCopy()
	pool.Spec.Namespaces, pool.Spec.Size = nil, 0
	shut := pool.Spec.DeepCopy()
	err := i.api.Create(ctx, pool)
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return false, fmt.Errorf("cannot create IPPool %s: %w", want.Name, err)
		}
		return true, nil
	}
	var have networkv1alpha1.IPPool
	if err := i.api.Get(ctx, client.ObjectKeyFromObject(want), &have); err != nil {
		return false, err
	}
	switch {
	case equality.Semantic.DeepEqual(&have.Spec, shut): // of an interrupted import
		return true, nil
	case equality.Semantic.DeepEqual(have.Spec, want.Spec):
		i.done.existed++
		return false, nil
	}
	return false, fmt.Errorf("IPPool %s exists with another spec: delete it, or make it equal to the output without --apply", want.Name)
}

// open lets pods request addresses of an IPPool.
func (i *importer) open(ctx context.Context, want *networkv1alpha1.IPPool) error {
	var have networkv1alpha1.IPPool
	if err := i.api.Get(ctx, client.ObjectKeyFromObject(want), &have); err != nil {
		return err
	}
	have.Spec.Namespaces, have.Spec.Size = want.Spec.Namespaces, want.Spec.Size
	if err := i.api.Update(ctx, &have); err != nil {
		return fmt.Errorf("cannot open IPPool %s; run the command again: %w", want.Name, err)
	}
	i.done.pools++
	return nil
}

// errHeld says that somebody has an address already.
var errHeld = errors.New("somebody else has it")

// lock creates a FloatingIP, or completes a free FloatingIP.
func (i *importer) lock(ctx context.Context, want *networkv1alpha1.FloatingIP) error {
	f := want.DeepCopy()
	err := i.asOperator.Create(ctx, f)
	if err == nil {
		i.done.locks++
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("cannot create FloatingIP %s as service account %s: %w", want.Name, operatorAccount, err)
	}
	var have networkv1alpha1.FloatingIP
	if err := i.asOperator.Get(ctx, client.ObjectKeyFromObject(want), &have); err != nil {
		return err
	}
	after := have.DeepCopy()
	for key, value := range want.Labels {
		metav1.SetMetaDataLabel(&after.ObjectMeta, key, value)
	}
	if after.Spec.Holder == nil {
		after.Spec.Holder = want.Spec.Holder
	}
	switch {
	case have.Spec.Pool != want.Spec.Pool:
		return fmt.Errorf("FloatingIP %s is of IPPool %s, not %s: %w", want.Name, have.Spec.Pool, want.Spec.Pool, errHeld)
	case want.Spec.Holder != nil && !sameHolder(after.Spec.Holder, want.Spec.Holder):
		return fmt.Errorf("FloatingIP %s is of %s %s/%s: %w", want.Name, have.Spec.Holder.Kind, have.Spec.Holder.Namespace,
			have.Spec.Holder.Name, errHeld)
	case equality.Semantic.DeepEqual(have, *after):
		i.done.existed++
		return nil
	}
	if err := i.asOperator.Update(ctx, after); err != nil {
		return fmt.Errorf("cannot complete FloatingIP %s: %w", want.Name, err)
	}
	i.done.locks++
	return nil
}

// sameHolder reports whether two holders are the same workload.
func sameHolder(a, b *networkv1alpha1.FloatingIPHolder) bool {
	return a.Kind == b.Kind && a.APIVersion == b.APIVersion && a.Namespace == b.Namespace && a.Name == b.Name
}
