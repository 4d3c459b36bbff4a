package tools

import (
	"slices"
	"testing"
)

func TestMissingFeatures(t *testing.T) {
	wanted := "# zones\nCONFIG_ZONES=y\n\nCONFIG_GENEVE=y\nCONFIG_VETH=y\n"
	config := "CONFIG_ZONES=y\n# CONFIG_GENEVE is not set\n"
	if got, want := missingFeatures(wanted, config), []string{"CONFIG_GENEVE=y", "CONFIG_VETH=y"}; !slices.Equal(got, want) {
		t.Errorf("missingFeatures = %q, want %q", got, want)
	}
}
