package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-network/weft/test/lab"
)

func newUp(open opener) *cobra.Command {
	o := lab.UpOptions{Nodes: 2, DNS: true}
	wait := true
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring the cluster up, with the product of this source tree",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			if err := c.Cache.Make(cmd.Context(), "all", cmd.OutOrStdout()); err != nil {
				return err
			}
			o.NoWait = !wait
			if err := c.Up(cmd.Context(), o); err != nil {
				return err
			}
			fmt.Println("kubeconfig", c.KubeConfig())
			return nil
		},
	}
	cmd.Flags().IntVar(&o.Nodes, "nodes", o.Nodes, "number of nodes")
	cmd.Flags().BoolVar(&o.WithoutWeft, "without-weft", false, "leave the product out: nodes register and stay NotReady")
	cmd.Flags().BoolVar(&o.ThroughNode, "through-node", false,
		"the API server reaches pods through the first node, for its proxies to pods and services")
	cmd.Flags().BoolVar(&o.PlainLinks, "plain-links", false,
		"nodes have their addresses on eth0, as most hosts do; the product moves them onto a bridge")
	cmd.Flags().BoolVar(&o.Bare, "bare", false,
		"nodes with only kubelet and containerd; the product brings OVN and Open vSwitch with dist/install.yaml")
	cmd.Flags().StringVar(&o.Release, "release", os.Getenv(lab.ReleaseVariable),
		"folder of make release: nodes pull its image from a registry outside, and its manifests are applied (default $WEFT_LAB_RELEASE)")
	cmd.Flags().BoolVar(&o.DNS, "dns", o.DNS, "run CoreDNS, unless the product is left out; up does not wait for it")
	cmd.Flags().BoolVar(&wait, "wait", wait, "wait until all nodes and the ClusterNetwork are Ready")
	return cmd
}

func newDown(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove the cluster, whatever its state",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			return c.Down(cmd.Context())
		},
	}
}

func newLoadImage(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "load-image",
		Short: "Rebuild the product's image, import it and replace the product's pods",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			start := time.Now()
			if err := c.LoadProduct(cmd.Context()); err != nil {
				return err
			}
			fmt.Printf("product loaded (%.1fs)\n", time.Since(start).Seconds())
			return nil
		},
	}
}
