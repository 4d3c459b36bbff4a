package addressapi

import (
	"context"
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

const releaseRule = "An address whose pod runs is refused. A free address stays free. The release is the write of kubectl weft ip release."

var releaseRight = right{verb: "update", resource: floatingIPs, perObject: true}

// ReleaseInput names an address to release.
type ReleaseInput struct {
	OneAddressInput
	ResourceVersion string `query:"resourceVersion" maxLength:"64" doc:"Release only this version of the address."`
}

// ReleaseManyInput names addresses to release.
type ReleaseManyInput struct {
	Body struct {
		Addresses []ReleaseItem `json:"addresses" minItems:"1" maxItems:"100" nullable:"false" doc:"The addresses."`
	}
}

// ReleaseItem is an address to release.
type ReleaseItem struct {
	Address         string `json:"address" format:"ip" maxLength:"79" example:"192.0.2.10" doc:"The address."`
	ResourceVersion string `json:"resourceVersion,omitempty" maxLength:"64" doc:"Release only this version of the address."`
}

// ReleaseManyOutput has the results of a release.
type ReleaseManyOutput struct {
	Body struct {
		Results []ReleaseResult `json:"results" nullable:"false" doc:"The results, in the order of the request."`
	}
}

// ReleaseResult is what became of an address.
type ReleaseResult struct {
	Address string   `json:"address" doc:"The address."`
	Outcome string   `json:"outcome" enum:"released,free,refused" doc:"free: it had no holder before. refused: problem says why."`
	Problem *Problem `json:"problem,omitempty" doc:"Why the release was refused."`
}

func (a *API) releaseAddress(ctx context.Context, in *ReleaseInput) (*AddressDetailOutput, error) {
	after, _, err := a.release(ctx, in.Address, in.ResourceVersion)
	if err != nil {
		return nil, err
	}
	return &AddressDetailOutput{detail(after)}, nil
}

func (a *API) releaseAddresses(ctx context.Context, in *ReleaseManyInput) (*ReleaseManyOutput, error) {
	out := &ReleaseManyOutput{}
	forbidden := 0
	for _, item := range in.Body.Addresses {
		result := ReleaseResult{Address: item.Address, Outcome: "refused"}
		err := a.mayOn(ctx, releaseRight, objectName(floatingIPs, item.Address))
		if err == nil {
			var had bool
			if _, had, err = a.release(ctx, item.Address, item.ResourceVersion); err == nil {
				result.Outcome = map[bool]string{true: "released", false: "free"}[had]
			}
		}
		if err != nil && !errors.As(err, &result.Problem) {
			return nil, err
		}
		if err != nil && isForbidden(err) {
			forbidden++
		}
		out.Body.Results = append(out.Body.Results, result)
	}
	if forbidden == len(in.Body.Addresses) {
		return nil, out.Body.Results[0].Problem
	}
	return out, nil
}

// release takes an address from its holder. had is false if it had none. version, if not empty, is the only version
// that may be released.
func (a *API) release(ctx context.Context, address, version string) (after *networkv1alpha1.FloatingIP, had bool, err error) {
	name, err := nameOf(address)
	if err != nil {
		return nil, false, err
	}
	// A conflict repeats the whole decision, so that a pod that got the address meanwhile keeps it.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		f := &networkv1alpha1.FloatingIP{}
		if err := a.live.Get(ctx, client.ObjectKey{Name: name}, f); client.IgnoreNotFound(err) != nil {
			return err
		} else if err != nil {
			return absent(address)
		}
		if version != "" && version != f.ResourceVersion {
			return problemf(http.StatusConflict, "address %s has changed: its resourceVersion is %s, not %s", address, f.ResourceVersion, version)
		}
		if after, had = f, f.Spec.Holder != nil; !had {
			return nil
		}
		if err := a.checkPod(ctx, f); err != nil {
			return err
		}
		after = floating.Ended(f, floating.Outcome{Released: true}, metav1.NewTime(a.now()))
		return a.client.Update(ctx, after)
	})
	if err != nil {
		return nil, false, fromServer(err, http.StatusUnprocessableEntity)
	}
	return after, had, nil
}

// checkPod returns an error that names the pod if it may still use the address.
func (a *API) checkPod(ctx context.Context, f *networkv1alpha1.FloatingIP) error {
	h := f.Spec.Holder
	if h.PodUID == "" {
		return nil
	}
	var pod corev1.Pod
	err := a.live.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Pod}, &pod)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil || pod.UID != h.PodUID || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	return problemf(http.StatusConflict, "address %s is in use by pod %s/%s on node %s: delete the pod first",
		f.Spec.Address, h.Namespace, h.Pod, h.Node)
}
