package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/spf13/cobra"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

type cancelCommand struct {
	cluster *cluster
	save    string
	// saved means that the file is written. A conflict repeats that.
	saved bool
}

func newCancel(target *cluster) *cobra.Command {
	r := &cancelCommand{cluster: target}
	c := &cobra.Command{Use: "cancel", Short: "Take back the deletion of the ClusterNetwork before the removal begins", Args: cobra.NoArgs,
		Long: `Take back the deletion of the ClusterNetwork. In Kubernetes a deletion always ends with the end of
the object. So this command saves the manifest to a file, removes Weft's finalizer, so that the
object ends and nothing is removed from any node, and recreates the object from the manifest. The
network works all the time.

If the command is interrupted, complete it with "kubectl create -f FILE". Once the removal has
begun, it cannot be taken back.

Exit codes: 0 the ClusterNetwork is not being deleted, 2 an error.`,
		Example: `  kubectl weft remove cancel
  kubectl weft remove cancel --save network.yaml`,
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := r.cluster.watchClient()
			if err != nil {
				return err
			}
			return r.run(c.Context(), api, c.OutOrStdout())
		}}
	c.Flags().StringVar(&r.save, "save", "", "file to save the manifest to (default clusternetwork-UID.yaml in the working directory)")
	return c
}

func (r *cancelCommand) run(ctx context.Context, api client.Client, out io.Writer) error {
	var recreated *unstructured.Unstructured
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) { // the status may be written meanwhile
		recreated, err = r.release(ctx, api, out)
		return err
	})
	if r.saved {
		fmt.Fprintln(out, "The manifest is saved in", r.save)
	}
	if err != nil || recreated == nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // an interruption here would leave the cluster without a ClusterNetwork
	if err := api.Create(ctx, recreated.DeepCopy()); apierrors.IsAlreadyExists(err) {
		fmt.Fprintln(out, "Another program has recreated the ClusterNetwork; compare it with the file.")
	} else if err != nil {
		return fmt.Errorf("cannot recreate ClusterNetwork %s; the network is unchanged; "+
			"to recreate the ClusterNetwork: kubectl create -f %s: %w",
			recreated.GetName(), r.save, err)
	}
	fmt.Fprintln(out, "The deletion was taken back.")
	return nil
}

// release ends a ClusterNetwork that is being deleted and returns the object to recreate. It returns nil if the
// ClusterNetwork is not being deleted.
func (r *cancelCommand) release(ctx context.Context, api client.Client, out io.Writer) (*unstructured.Unstructured, error) {
	cn, err := network(ctx, api)
	if err != nil {
		return nil, err
	}
	if cn.DeletionTimestamp.IsZero() {
		return nil, withdraw(ctx, api, cn, out)
	}
	if err := cancellable(cn); err != nil {
		return nil, err
	}
	recreated, err := manifestOf(ctx, api, cn)
	if err != nil {
		return nil, err
	}
	if r.save == "" {
		r.save = fmt.Sprintf("clusternetwork-%s.yaml", cn.UID)
	}
	if err := saveManifest(r.save, recreated); err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	r.saved = true
	if err := api.Patch(ctx, cn, releasePatch(cn)); err != nil {
		return nil, fmt.Errorf("cannot remove finalizer %s of ClusterNetwork %s; nothing was changed: %w",
			networkv1alpha1.OperandsFinalizer, cn.Name, err)
	}
	return recreated, nil
}

// withdraw removes the confirmation of a ClusterNetwork that was not deleted.
func withdraw(ctx context.Context, api client.Client, cn *networkv1alpha1.ClusterNetwork, out io.Writer) error {
	if _, confirmed := cn.Annotations[networkv1alpha1.ConfirmRemovalAnnotation]; !confirmed {
		fmt.Fprintf(out, "ClusterNetwork %s is not being deleted. Nothing was changed.\n", cn.Name)
		return nil
	}
	before := cn.DeepCopy()
	delete(cn.Annotations, networkv1alpha1.ConfirmRemovalAnnotation)
	if err := api.Patch(ctx, cn, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	fmt.Fprintf(out, "ClusterNetwork %s is not being deleted. The annotation %s was removed.\n",
		cn.Name, networkv1alpha1.ConfirmRemovalAnnotation)
	return nil
}

// cancellable returns an error if the deletion cannot be taken back.
func cancellable(cn *networkv1alpha1.ClusterNetwork) error {
	c := meta.FindStatusCondition(cn.Status.Conditions, networkv1alpha1.ConditionRemoving)
	if c != nil && c.Reason == networkv1alpha1.ReasonRemovingOperands {
		return fmt.Errorf("the removal of the network has begun and cannot be taken back: %s. "+
			"When the ClusterNetwork is gone, apply its manifest again", c.Message)
	}
	others := slices.DeleteFunc(slices.Clone(cn.Finalizers), func(f string) bool { return f == networkv1alpha1.OperandsFinalizer })
	if len(others) > 0 {
		return fmt.Errorf("finalizers of other programs keep ClusterNetwork %s, so it cannot be recreated: %s. Nothing was changed",
			cn.Name, strings.Join(others, ", "))
	}
	return nil
}

// releasePatch removes the finalizer and the confirmation. It contains the resourceVersion, so that it fails if a
// removal begins meanwhile.
func releasePatch(cn *networkv1alpha1.ClusterNetwork) client.Patch {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": cn.ResourceVersion, "finalizers": nil,
		"annotations": map[string]any{networkv1alpha1.ConfirmRemovalAnnotation: nil}}})
	if err != nil {
		panic(err) // strings always marshal
	}
	return client.RawPatch(types.MergePatchType, text)
}

// manifestOf returns the ClusterNetwork to recreate, including fields that this program does not recognize. It checks
// by a dry run that the API server would accept it.
func manifestOf(ctx context.Context, api client.Client, cn *networkv1alpha1.ClusterNetwork) (*unstructured.Unstructured, error) {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(networkv1alpha1.GroupVersion.WithKind("ClusterNetwork"))
	if err := api.Get(ctx, client.ObjectKeyFromObject(cn), have); err != nil {
		return nil, err
	}
	annotations := have.GetAnnotations()
	delete(annotations, networkv1alpha1.ConfirmRemovalAnnotation)
	recreated := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSONValue(have.Object["spec"])}}
	recreated.SetGroupVersionKind(have.GroupVersionKind())
	recreated.SetName(have.GetName())
	recreated.SetLabels(have.GetLabels())
	recreated.SetAnnotations(annotations)
	recreated.SetOwnerReferences(have.GetOwnerReferences())
	// If only the existing object is in the way, the new one would be accepted.
	if err := api.Create(ctx, recreated.DeepCopy(), client.DryRunAll); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("ClusterNetwork %s could not be recreated, so nothing was changed: %w", cn.Name, err)
	}
	return recreated, nil
}

// saveManifest writes the file atomically and durably.
func saveManifest(name string, object *unstructured.Unstructured) error {
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".clusternetwork-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // fails after the rename
	if _, err = io.Copy(file, bytes.NewReader(text)); err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
