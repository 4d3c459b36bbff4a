package topology

import (
	"fmt"
	"slices"
	"testing"
)

func backendTexts(count int) (texts []string) {
	for i := range count {
		texts = append(texts, fmt.Sprintf("10.244.%d.%d:8080", i%7, 3+i))
	}
	return texts
}

// Each backend has as many places as another, give or take one.
func TestPlacesAreShared(t *testing.T) {
	for count := 2; count <= mostPlaced; count++ {
		have := map[string]int{}
		for _, backend := range placed(backendTexts(count)) {
			have[backend]++
		}
		if len(have) != count {
			t.Fatalf("of %d backends %d have a place", count, len(have))
		}
		for backend, n := range have {
			if n < places/count || n > places/count+1 {
				t.Errorf("of %d backends, %s has %d places", count, backend, n)
			}
		}
	}
	for _, count := range []int{0, 1, mostPlaced + 1, 500} {
		if backends := backendTexts(count); !slices.Equal(placed(backends), backends) {
			t.Errorf("%d backends are not as they were", count)
		}
	}
}

// When a backend goes, and when it comes, all clients of others stay where they are, but for a few.
func TestPlacesStay(t *testing.T) {
	for count := 2; count <= mostPlaced; count++ {
		all := backendTexts(count)
		before, moved := placed(all), 0
		for gone := range all {
			after := placed(slices.Delete(slices.Clone(all), gone, gone+1))
			if count == 2 {
				after = slices.Repeat(after, places) // one backend has them all
			}
			for i := range before {
				if before[i] != all[gone] && before[i] != after[i] {
					moved++
				}
			}
		}
		part := 100 * float64(moved) / float64(places*count)
		t.Logf("of %d backends one goes: %.1f %% of the clients of others move", count, part)
		if part > 15 {
			t.Errorf("of %d backends one goes: %.1f %% of the clients of others move", count, part)
		}
	}
}
