package v1alpha1

import (
	"strings"
	"testing"
)

func TestParseBandwidth(t *testing.T) {
	for _, test := range []struct {
		annotations map[string]string
		want        Bandwidth
	}{
		{nil, Bandwidth{}},
		{map[string]string{IngressBandwidthAnnotation: "10M"}, Bandwidth{Ingress: 10_000_000}},
		{map[string]string{EgressBandwidthAnnotation: "1k"}, Bandwidth{Egress: 1_000}},
		{map[string]string{IngressBandwidthAnnotation: "1Gi", EgressBandwidthAnnotation: "2e6"},
			Bandwidth{Ingress: 1 << 30, Egress: 2_000_000}},
		{map[string]string{EgressBandwidthAnnotation: "4294967295k"}, Bandwidth{Egress: MaxBandwidth}},
	} {
		if got, err := ParseBandwidth(test.annotations); err != nil || got != test.want {
			t.Errorf("%v: %+v, %v; want %+v", test.annotations, got, err, test.want)
		}
	}
}

func TestInvalidBandwidth(t *testing.T) {
	for _, text := range []string{"", "fast", "0", "-1M", "999", "1m", "4294967296k", "1P", "1e30", "10 M", "10Mbit"} {
		for _, name := range []string{IngressBandwidthAnnotation, EgressBandwidthAnnotation} {
			annotations := map[string]string{IngressBandwidthAnnotation: "10M", EgressBandwidthAnnotation: "10M"}
			annotations[name] = text
			got, err := ParseBandwidth(annotations)
			if err == nil || got != (Bandwidth{}) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s %q: %+v, %v; want an error with the annotation's name, and no limit", name, text, got, err)
			}
		}
	}
}

func FuzzParseBandwidth(f *testing.F) {
	for _, seed := range []string{"10M", "1k", "", "1e9", "0.001", "-1", "9999999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseBandwidth(map[string]string{EgressBandwidthAnnotation: text})
		if err == nil && (got.Egress < MinBandwidth || got.Egress > MaxBandwidth || got.Ingress != 0) {
			t.Errorf("%q became %+v", text, got)
		}
	})
}
