package addressapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
)

// ListPoolsInput are the parameters of a list of pools.
type ListPoolsInput struct {
	Text string `query:"text" maxLength:"253" doc:"Only pools with this text in the name, the location, the network or a range."`
	Sort string `query:"sort" enum:"name,-name,location,-location,total,-total,used,-used,kept,-kept,created,-created" default:"name"`
	Paging
}

// ListPoolsOutput is a page of pools.
type ListPoolsOutput struct {
	Body PoolPage
}

// PoolPage is a page of pools.
type PoolPage struct {
	Items []Pool `json:"items" nullable:"false" doc:"The pools."`
	Total int    `json:"total" doc:"How many pools the filters select, on all pages."`
	Next  string `json:"next,omitempty" doc:"The cursor of the next page. Absent on the last page."`
}

// OnePoolInput names a pool.
type OnePoolInput struct {
	Name string `path:"name" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" doc:"Name."`
}

// PoolOutput is a pool.
type PoolOutput struct {
	Body Pool
}

// CreatePoolInput is a new pool.
type CreatePoolInput struct {
	Body struct {
		Name string   `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" doc:"Name."`
		Spec PoolSpec `json:"spec" doc:"The addresses of the pool."`
	}
}

// CreatePoolOutput is a pool that was created.
type CreatePoolOutput struct {
	Location string `header:"Location" doc:"Path of the pool."`
	Body     Pool
}

// ChangePoolInput is a change of a pool.
type ChangePoolInput struct {
	OnePoolInput
	Body struct {
		ResourceVersion string   `json:"resourceVersion" minLength:"1" maxLength:"64" doc:"The version that is changed, as a get returned it."`
		Spec            PoolSpec `json:"spec" doc:"The pool's new spec, whole."`
	}
}

// DeletePoolInput names a pool to delete.
type DeletePoolInput struct {
	OnePoolInput
	ResourceVersion string `query:"resourceVersion" maxLength:"64" doc:"Delete only this version of the pool."`
}

// SizeInput is how many addresses of a pool exist at least.
type SizeInput struct {
	OnePoolInput
	Body struct {
		Size int32 `json:"size" minimum:"0" maximum:"4096" doc:"How many addresses of each family exist at least."`
	}
}

func (a *API) pools() {
	const path, one = "/v1/pools", "/v1/pools/{name}"
	changes := []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity}
	register(a, operation{id: "list-pools", method: http.MethodGet, path: path, tag: "pools", summary: "List pools",
		description: "Lists the pools.", needs: right{verb: "list", resource: ipPools}}, a.listPools)
	register(a, operation{id: "create-pool", method: http.MethodPost, path: path, tag: "pools", summary: "Create a pool",
		description: "Creates a pool. The operator checks it against all other addresses after that: see status.ready.",
		needs:       right{verb: "create", resource: ipPools}, errors: changes[1:], success: http.StatusCreated}, a.createPool)
	register(a, operation{id: "get-pool", method: http.MethodGet, path: one, tag: "pools", summary: "Get a pool",
		description: "Returns a pool.", needs: right{verb: "get", resource: ipPools, parameter: "name"}, errors: changes[:1]}, a.getPool)
	register(a, operation{id: "change-pool", method: http.MethodPut, path: one, tag: "pools", summary: "Change a pool",
		description: "Replaces the spec of a pool. The operator refuses to drop addresses in use: see status.ready.",
		needs:       right{verb: "update", resource: ipPools, parameter: "name"}, errors: changes}, a.changePool)
	register(a, operation{id: "delete-pool", method: http.MethodDelete, path: one, tag: "pools", summary: "Delete a pool",
		description: "Deletes a pool. A pool with addresses that are used or kept is refused.",
		needs:       right{verb: "delete", resource: ipPools, parameter: "name"}, errors: changes}, a.deletePool)
	register(a, operation{id: "preallocate", method: http.MethodPut, path: one + "/size", tag: "pools", summary: "Preallocate addresses",
		description: "Sets the size of a pool. The operator then creates addresses until as many of each family exist.",
		needs:       right{verb: "update", resource: ipPools, parameter: "name"}, errors: changes}, a.preallocate)
}

func (a *API) listPools(ctx context.Context, in *ListPoolsInput) (*ListPoolsOutput, error) {
	var all networkv1alpha1.IPPoolList
	if err := a.client.List(ctx, &all); err != nil {
		return nil, err
	}
	key := poolKeys[trimMinus(in.Sort)]
	entries := make([]entry[*networkv1alpha1.IPPool], 0, len(all.Items))
	for i := range all.Items {
		pool := &all.Items[i]
		texts := []string{pool.Name, string(pool.Spec.Location), pool.Spec.Network}
		for _, r := range pool.Spec.Ranges {
			texts = append(texts, r.Addresses)
		}
		if in.Text == "" || contains(in.Text, texts...) {
			entries = append(entries, entry[*networkv1alpha1.IPPool]{pool, key(pool), pool.Name})
		}
	}
	page, next, err := paginate(entries, in.Sort, in.Paging)
	if err != nil {
		return nil, err
	}
	out := &ListPoolsOutput{PoolPage{Items: make([]Pool, 0, len(page)), Total: len(entries), Next: next}}
	for _, e := range page {
		pool, err := describePool(e.object)
		if err != nil {
			return nil, err
		}
		out.Body.Items = append(out.Body.Items, pool)
	}
	return out, nil
}

// poolKeys has the key of each order. Pools with the same key are sorted by name.
var poolKeys = map[string]func(*networkv1alpha1.IPPool) string{
	"name":     func(*networkv1alpha1.IPPool) string { return "" },
	"location": func(p *networkv1alpha1.IPPool) string { return string(p.Spec.Location) },
	"total":    func(p *networkv1alpha1.IPPool) string { return fmt.Sprintf("%020d", p.Status.Total) },
	"used":     func(p *networkv1alpha1.IPPool) string { return fmt.Sprintf("%020d", p.Status.Used) },
	"kept":     func(p *networkv1alpha1.IPPool) string { return fmt.Sprintf("%020d", p.Status.Kept) },
	"created":  func(p *networkv1alpha1.IPPool) string { return timeKey(p.CreationTimestamp.Time) },
}

func trimMinus(order string) string { return strings.TrimPrefix(order, "-") }

func (a *API) createPool(ctx context.Context, in *CreatePoolInput) (*CreatePoolOutput, error) {
	pool := &networkv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: in.Body.Name}}
	if err := setSpec(pool, in.Body.Spec); err != nil {
		return nil, err
	}
	if err := a.client.Create(ctx, pool); err != nil {
		return nil, fromServer(err, http.StatusUnprocessableEntity)
	}
	body, err := describePool(pool)
	return &CreatePoolOutput{Location: "/v1/pools/" + pool.Name, Body: body}, err
}

func (a *API) getPool(ctx context.Context, in *OnePoolInput) (*PoolOutput, error) {
	var pool networkv1alpha1.IPPool
	if err := a.client.Get(ctx, client.ObjectKey{Name: in.Name}, &pool); err != nil {
		return nil, fromServer(err, http.StatusUnprocessableEntity)
	}
	body, err := describePool(&pool)
	return &PoolOutput{body}, err
}

func (a *API) changePool(ctx context.Context, in *ChangePoolInput) (*PoolOutput, error) {
	return a.update(ctx, in.Name, in.Body.ResourceVersion, func(pool *networkv1alpha1.IPPool) error { return setSpec(pool, in.Body.Spec) })
}

func (a *API) preallocate(ctx context.Context, in *SizeInput) (*PoolOutput, error) {
	return a.update(ctx, in.Name, "", func(pool *networkv1alpha1.IPPool) error {
		pool.Spec.Size = in.Body.Size
		return nil
	})
}

// update changes a pool. Without a version, a conflict repeats the change.
func (a *API) update(ctx context.Context, name, version string, change func(*networkv1alpha1.IPPool) error) (*PoolOutput, error) {
	pool := &networkv1alpha1.IPPool{}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := a.readPool(ctx, name, version, pool); err != nil {
			return err
		}
		if err := change(pool); err != nil {
			return err
		}
		return a.client.Update(ctx, pool)
	})
	if err != nil {
		return nil, fromServer(err, http.StatusUnprocessableEntity)
	}
	body, err := describePool(pool)
	return &PoolOutput{body}, err
}

// readPool reads a pool past the cache. If version is not empty, another version of the pool is an error.
func (a *API) readPool(ctx context.Context, name, version string, pool *networkv1alpha1.IPPool) error {
	*pool = networkv1alpha1.IPPool{}
	if err := a.live.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return err
	}
	if version != "" && version != pool.ResourceVersion {
		return problemf(http.StatusConflict, "pool %s has changed: its resourceVersion is %s, not %s", name, pool.ResourceVersion, version)
	}
	return nil
}

func (a *API) deletePool(ctx context.Context, in *DeletePoolInput) (*struct{}, error) {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pool := &networkv1alpha1.IPPool{}
		if err := a.readPool(ctx, in.Name, in.ResourceVersion, pool); err != nil {
			return err
		}
		if err := a.checkUnused(ctx, in.Name); err != nil {
			return err
		}
		return a.client.Delete(ctx, pool, client.Preconditions{UID: &pool.UID, ResourceVersion: &pool.ResourceVersion})
	})
	if err != nil {
		return nil, fromServer(err, http.StatusConflict)
	}
	return nil, nil
}

// checkUnused returns an error if addresses of a pool have a holder. The admission policy reads only the status, which
// may be behind.
func (a *API) checkUnused(ctx context.Context, pool string) error {
	var all networkv1alpha1.FloatingIPList
	if err := a.client.List(ctx, &all); err != nil {
		return err
	}
	held, example := 0, networkv1alpha1.EgressAddress("")
	for i := range all.Items {
		if f := &all.Items[i]; f.Spec.Pool == pool && f.Spec.Holder != nil {
			held, example = held+1, f.Spec.Address
		}
	}
	if held > 0 {
		return problemf(http.StatusConflict, "pool %s has addresses in use: %s and %d others: release them first", pool, example, held-1)
	}
	return nil
}

// setSpec sets the spec of a pool. The error names the field.
func setSpec(pool *networkv1alpha1.IPPool, spec PoolSpec) error {
	pool.Spec = networkv1alpha1.IPPoolSpec{}
	if err := convert(spec, &pool.Spec); err != nil {
		return err
	}
	if _, err := floating.ParsePool(pool); err != nil {
		field, detail, _ := strings.Cut(err.Error(), ": ")
		return problem(http.StatusUnprocessableEntity, err.Error(), ProblemField{Pointer: pointer(field), Detail: detail})
	}
	return nil
}

// describePool returns an IPPool as the API describes it.
func describePool(pool *networkv1alpha1.IPPool) (Pool, error) {
	p := Pool{Name: pool.Name, ResourceVersion: pool.ResourceVersion, Created: pool.CreationTimestamp.UTC(),
		Status: PoolStatus{Total: pool.Status.Total, Used: pool.Status.Used, Kept: pool.Status.Kept, Ready: string(metav1.ConditionUnknown)}}
	ready := meta.FindStatusCondition(pool.Status.Conditions, networkv1alpha1.ConditionReady)
	if ready != nil && ready.ObservedGeneration == pool.Generation {
		p.Status.Ready, p.Status.Message = string(ready.Status), ready.Message
	}
	return p, convert(pool.Spec, &p.Spec)
}

// convert copies between types with the same JSON. A field that the target lacks is an error, not lost.
func convert(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(to)
}
