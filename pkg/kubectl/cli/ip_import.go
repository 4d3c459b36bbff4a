package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/addresses/floating"
	"github.com/weft-network/weft/pkg/kubectl/galaxy"
)

// galaxyNamespace is where Galaxy's ConfigMap is.
const galaxyNamespace = "kube-system"

type ipImportCommand struct {
	cluster  *cluster
	format   format
	files    []string
	location string
	network  string
	apply    bool
}

func newIPImport(target *cluster) *cobra.Command {
	i := &ipImportCommand{cluster: target}
	c := &cobra.Command{Use: "import --location LOCATION", Args: noArguments, Short: "Take over the addresses of TKEStack Galaxy",
		Long: `Convert the ranges, pools and addresses of TKEStack Galaxy to IPPools and FloatingIPs. The command reads
Galaxy's FloatingIPs and Pools and its ConfigMap ` + galaxyNamespace + "/" + galaxy.ConfigMapName + ` from the API server, or from
-f. Nodes, workloads and pods come from the API server.

Without --apply nothing is written, and the objects are printed. Lines "note: ..." on the standard error
name what has no counterpart or needs a hand. With --apply no pod gets an address of the new IPPools
before all FloatingIPs exist. The FloatingIPs are written in the name of the operator, which needs the
right to impersonate its service account. An interrupted --apply can be repeated.

Stop galaxy-ipam before --apply, so that it gives no further addresses.

Exit codes: 0 success, 2 an error.`,
		Example: `  kubectl weft ip import --location Underlay --network rack-vlan
  kubectl weft ip import --location Overlay -f galaxy.yaml > pools.yaml
  kubectl weft ip import --location NAT --apply`,
		RunE: i.run}
	c.Flags().StringVarP((*string)(&i.format), "output", "o", "yaml", "yaml or json")
	c.Flags().StringSliceVarP(&i.files, "filename", "f", nil, `files or folders with Galaxy's objects; "-" is standard input`)
	c.Flags().StringVar(&i.location, "location", "", "where the addresses live: Overlay, Underlay or NAT")
	c.Flags().StringVar(&i.network, "network", "", "with --location Underlay: the Network of the addresses")
	c.Flags().BoolVar(&i.apply, "apply", false, "create the objects")
	completeFlag(c, "network", target.completing(unlimited, completion.networks))
	completeWords(c, "location", string(networkv1alpha1.LocationOverlay), string(networkv1alpha1.LocationUnderlay),
		string(networkv1alpha1.LocationNAT))
	completeWords(c, "output", "yaml", "json")
	_ = c.MarkFlagRequired("location") // fails only if the flag does not exist
	return c
}

// importAnswer is the answer of "kubectl weft ip import -o json".
type importAnswer struct {
	Pools       []networkv1alpha1.IPPool     `json:"pools"`
	FloatingIPs []networkv1alpha1.FloatingIP `json:"floatingIPs"`
	Notes       []string                     `json:"notes"`
}

// MarshalJSON encodes empty lists as [] instead of null.
func (a importAnswer) MarshalJSON() ([]byte, error) {
	type plain importAnswer
	a.Pools, a.FloatingIPs, a.Notes = listOf(a.Pools), listOf(a.FloatingIPs), listOf(a.Notes)
	return json.Marshal(plain(a))
}

func (i *ipImportCommand) check() error {
	const underlay = string(networkv1alpha1.LocationUnderlay)
	locations := []string{string(networkv1alpha1.LocationOverlay), underlay, string(networkv1alpha1.LocationNAT)}
	switch {
	case i.format != "yaml" && i.format != formatJSON:
		return fmt.Errorf("invalid output %q: want yaml or json", string(i.format))
	case !slices.Contains(locations, i.location):
		return fmt.Errorf("invalid --location %q: want %s", i.location, strings.Join(locations, ", "))
	case (i.location == underlay) != (i.network != ""):
		return errors.New("--location Underlay needs --network, and no other location has one")
	}
	return nil
}

func (i *ipImportCommand) run(c *cobra.Command, _ []string) error {
	if err := i.check(); err != nil {
		return err
	}
	api, err := i.cluster.watchClient()
	if err != nil {
		return err
	}
	result, err := i.convert(c.Context(), api, c.InOrStdin())
	if err != nil {
		return err
	}
	if i.format == formatJSON {
		err = formatJSON.write(c.OutOrStdout(), importAnswer(result), nil)
	} else {
		for _, note := range result.Notes {
			fmt.Fprintln(c.ErrOrStderr(), "note:", note)
		}
		if !i.apply {
			err = printObjects(c.OutOrStdout(), result)
		}
	}
	if err != nil || !i.apply {
		return err
	}
	asOperator, err := i.cluster.operatorsClient()
	if err != nil {
		return err
	}
	done, err := (&importer{api: api, asOperator: asOperator}).apply(c.Context(), result)
	fmt.Fprintf(c.ErrOrStderr(), "%d IPPools and %d FloatingIPs created or completed, %d existed already\n",
		done.pools, done.locks, done.existed)
	return err
}

// convert reads what Galaxy and the cluster have, and converts it.
func (i *ipImportCommand) convert(ctx context.Context, api client.Reader, in io.Reader) (galaxy.Result, error) {
	objects, err := i.objects(ctx, api, in)
	if err != nil {
		return galaxy.Result{}, err
	}
	source, err := galaxy.Read(objects)
	if err != nil {
		return galaxy.Result{}, err
	}
	have, err := readCluster(ctx, api, source)
	if err != nil {
		return galaxy.Result{}, err
	}
	target := galaxy.Target{Location: networkv1alpha1.IPPoolLocation(i.location), Network: i.network, Now: time.Now()}
	return galaxy.Convert(source, have, target)
}

// objects reads Galaxy's objects from the files, or from the API server.
func (i *ipImportCommand) objects(ctx context.Context, api client.Reader, in io.Reader) (
	objects []*unstructured.Unstructured, err error,
) {
	if len(i.files) > 0 {
		documents, err := readFiles(i.files, in)
		for _, d := range documents {
			objects = append(objects, d.Object)
		}
		return objects, err
	}
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(galaxy.ConfigMapKind)
	err = api.Get(ctx, client.ObjectKey{Namespace: galaxyNamespace, Name: galaxy.ConfigMapName}, config)
	if absent(err) {
		return nil, fmt.Errorf("there is no ConfigMap %s/%s, which has Galaxy's ranges; -f reads it from a file",
			galaxyNamespace, galaxy.ConfigMapName)
	}
	if err != nil {
		return nil, err
	}
	objects = append(objects, config)
	for _, kind := range []string{galaxy.FloatingIPKind.Kind, galaxy.PoolKind.Kind} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(galaxy.FloatingIPKind.GroupVersion().WithKind(kind + "List"))
		if err := api.List(ctx, list); absent(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		for n := range list.Items {
			objects = append(objects, &list.Items[n])
		}
	}
	return objects, nil
}

// readCluster reads the nodes, and the workloads and pods that have Galaxy's addresses.
func readCluster(ctx context.Context, api client.Reader, source galaxy.Source) (have galaxy.Cluster, err error) {
	have.Workloads, have.Pods = map[floating.Workload]types.UID{}, map[types.NamespacedName]*corev1.Pod{}
	var nodes corev1.NodeList
	if err := api.List(ctx, &nodes); err != nil {
		return have, err
	}
	have.Nodes = nodes.Items
	workloads, pods := source.Workloads()
	seen := map[floating.Workload]bool{}
	for _, w := range workloads {
		if seen[w] {
			continue
		}
		seen[w] = true
		object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: w.APIVersion, Kind: w.Kind}}
		err := api.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}, object)
		if err == nil {
			have.Workloads[w] = object.UID
		} else if !absent(err) {
			return have, fmt.Errorf("%s: %w", w, err)
		}
	}
	for _, name := range pods {
		pod := &corev1.Pod{}
		if err := api.Get(ctx, name, pod); client.IgnoreNotFound(err) != nil {
			return have, err
		} else if err == nil && !podEnded(pod) {
			have.Pods[name] = pod
		}
	}
	return have, nil
}

// printObjects prints the objects as YAML without their status.
func printObjects(out io.Writer, result galaxy.Result) error {
	var objects []client.Object
	for i := range result.Pools {
		objects = append(objects, &result.Pools[i])
	}
	for i := range result.FloatingIPs {
		objects = append(objects, &result.FloatingIPs[i])
	}
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
