package main

import (
	"github.com/spf13/cobra"

	"github.com/weft-network/weft/test/lab/tools"
)

func newTools() *cobra.Command {
	return &cobra.Command{
		Use:       "tools ovn|envtest|linux|all",
		Short:     "Make the programs that the lab and the tests run, in $WEFT_CACHE",
		ValidArgs: []string{"ovn", "envtest", "linux", "all", "upstream"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			cache, err := tools.DefaultCache()
			if err != nil {
				return err
			}
			return cache.Make(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
}
