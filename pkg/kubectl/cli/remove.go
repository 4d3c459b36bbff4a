package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spf13/cobra"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/health"
)

// removalReport is the part of "kubectl weft status" about a ClusterNetwork that is being deleted.
type removalReport struct {
	Since    metav1.Time `json:"since"`
	Reason   string      `json:"reason"`
	Message  string      `json:"message"`
	NextStep string      `json:"nextStep"`
}

// removalOf returns the report, or nil if the ClusterNetwork is not being deleted.
func removalOf(cn *networkv1alpha1.ClusterNetwork) *removalReport {
	c := health.RemovalOf(cn)
	if c == nil {
		return nil
	}
	return &removalReport{*cn.DeletionTimestamp, c.Reason, c.Message, health.RemovalProblem("ClusterNetwork/"+cn.Name, *c).NextStep}
}

func (r *removalReport) text() string {
	return fmt.Sprintf("The network is being removed (deleted at %s): %s\n    %s\n    -> %s\n",
		r.Since.UTC().Format(time.RFC3339), r.Reason, r.Message, r.NextStep)
}

type removeCommand struct {
	cluster *cluster
	confirm string
}

func newRemove(target *cluster) *cobra.Command {
	r := &removeCommand{cluster: target}
	c := &cobra.Command{Use: "remove", Short: "Remove the network from the cluster, or take a removal back", Args: cobra.NoArgs,
		Long: `Show what delays a removal of the network, or how to begin one. With --confirm, confirm the deletion
of the ClusterNetwork and delete it. The network is then removed from every node once no pod uses
it. "kubectl weft status" shows what delays it.

Exit codes: 0 success, 2 an error.`,
		Example: `  kubectl weft remove
  kubectl weft remove --confirm "$(kubectl get clusternetwork default -o jsonpath='{.metadata.uid}')"`,
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := r.cluster.watchClient()
			if err != nil {
				return err
			}
			return r.run(c.Context(), api, c.OutOrStdout())
		}}
	c.Flags().StringVar(&r.confirm, "confirm", "",
		"UID of the ClusterNetwork: confirm the deletion and delete it (without the flag the command shows the UID)")
	c.AddCommand(newCancel(target))
	return c
}

var errNoNetwork = errors.New("there is no ClusterNetwork " + networkv1alpha1.ClusterNetworkName)

// network reads the ClusterNetwork.
func network(ctx context.Context, api client.Client) (*networkv1alpha1.ClusterNetwork, error) {
	cn := &networkv1alpha1.ClusterNetwork{}
	err := api.Get(ctx, client.ObjectKey{Name: networkv1alpha1.ClusterNetworkName}, cn)
	if apierrors.IsNotFound(err) {
		err = errNoNetwork
	}
	return cn, err
}

func (r *removeCommand) run(ctx context.Context, api client.Client, out io.Writer) error {
	cn, err := network(ctx, api)
	if err != nil {
		return err
	}
	removal := removalOf(cn)
	switch {
	case r.confirm == "" && removal != nil:
		fmt.Fprint(out, removal.text())
		if !networkv1alpha1.RemovalConfirmed(cn) {
			fmt.Fprintf(out, "To confirm the deletion: kubectl weft remove --confirm %s\n", cn.UID)
		}
		return nil
	case r.confirm == "":
		fmt.Fprintf(out, "Nothing was changed. The network would be removed from every node once no pod uses it. "+
			"After that has begun, it cannot be taken back.\nTo remove the network: kubectl weft remove --confirm %s\n", cn.UID)
		return nil
	case r.confirm != string(cn.UID):
		return fmt.Errorf("ClusterNetwork %s has UID %s, not %s: nothing was changed", cn.Name, cn.UID, r.confirm)
	}
	if !networkv1alpha1.RemovalConfirmed(cn) {
		before := cn.DeepCopy()
		metav1.SetMetaDataAnnotation(&cn.ObjectMeta, networkv1alpha1.ConfirmRemovalAnnotation, string(cn.UID))
		if err := api.Patch(ctx, cn, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("cannot confirm the deletion of ClusterNetwork %s: %w", cn.Name, err)
		}
	}
	if removal == nil {
		if err := api.Delete(ctx, cn, client.Preconditions{UID: &cn.UID}); err != nil {
			return fmt.Errorf("the deletion of ClusterNetwork %s is confirmed, but the ClusterNetwork cannot be deleted: %w", cn.Name, err)
		}
	}
	fmt.Fprintln(out, "The deletion is confirmed. To see what delays the removal: kubectl weft status. "+
		"To take the deletion back before the removal begins: kubectl weft remove cancel")
	return nil
}
