package cli

import "github.com/spf13/cobra"

func newDatabase(_ *cluster) *cobra.Command {
	return &cobra.Command{Use: "db", Short: "Repair the OVN databases"}
}
