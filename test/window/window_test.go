// Package window measures the delay until the operator receives a network policy that the API server has accepted:
// from the reply to the policy's creation until the policy is in the operator's cache. A pod that starts in between
// starts without the policy.
package window

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/test/kubeapiserver"
)

const (
	tries    = "WEFT_WINDOW_TRIES"
	aFew     = 50
	patience = time.Minute
	// longest is the largest allowed window on a busy machine; usually it is a hundredth of that.
	longest = 2 * time.Second
	// podsPerSecond is the number of pods created by other clients, for the figures under load.
	podsPerSecond = 100
)

// arrivals records when each policy arrived in the cache.
type arrivals struct {
	mu   sync.Mutex
	wait map[string]chan time.Time
}

func (a *arrivals) of(name string) chan time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wait[name] == nil {
		a.wait[name] = make(chan time.Time, 1)
	}
	return a.wait[name]
}

// operatorCache is a cache like the operator's, with policies and pods.
func operatorCache(t *testing.T, config *rest.Config) *arrivals {
	t.Helper()
	made, err := controllers.ManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	made.Cache.Scheme = made.Scheme
	c, err := cache.New(config, made.Cache)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if _, err := c.GetInformer(ctx, &corev1.Pod{}); err != nil {
		t.Fatal(err)
	}
	informer, err := c.GetInformer(ctx, &networkingv1.NetworkPolicy{})
	if err != nil {
		t.Fatal(err)
	}
	arrived := &arrivals{wait: map[string]chan time.Time{}}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		if policy, ok := o.(*networkingv1.NetworkPolicy); ok {
			arrived.of(policy.Name) <- time.Now()
		}
	}})
	if err != nil || !c.WaitForCacheSync(ctx) {
		t.Fatalf("the cache is not in sync: %v", err)
	}
	return arrived
}

// measured are the times of all tries.
type measured struct{ fromAnswer, fromRequest []time.Duration }

func (m measured) String() string {
	line := func(what string, times []time.Duration) string {
		slices.Sort(times)
		at := func(part float64) string {
			return fmt.Sprintf("%.1f", times[int(part*float64(len(times)-1))].Seconds()*1000)
		}
		return fmt.Sprintf("from the %s p50 %s, p99 %s, max %s ms", what, at(0.5), at(0.99), at(1))
	}
	return fmt.Sprintf("%d policies: %s; %s", len(m.fromAnswer), line("answer", m.fromAnswer), line("request", m.fromRequest))
}

// measure creates policies, one after the other. The window of a policy that reaches the cache before the reply is
// 0.
func measure(t *testing.T, api client.Client, arrived *arrivals, name string, n int) (m measured) {
	t.Helper()
	for i := range n {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, i)}}
		policy.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		arrival, start := arrived.of(policy.Name), time.Now()
		if err := api.Create(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
		answered := time.Now()
		select {
		case at := <-arrival:
			m.fromAnswer = append(m.fromAnswer, max(0, at.Sub(answered)))
			m.fromRequest = append(m.fromRequest, at.Sub(start))
		case <-time.After(patience):
			t.Fatalf("policy %s did not reach the cache", policy.Name)
		}
	}
	return m
}

// createPods creates pods from other clients until the test ends.
func createPods(t *testing.T, api client.Client) (stop func()) {
	t.Helper()
	if err := client.IgnoreAlreadyExists(api.Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	next := make(chan int)
	for range 8 {
		workers.Go(func() {
			for i := range next {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", i)},
					Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "image"}}}}
				if err := api.Create(ctx, pod); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Go(func() {
		defer close(next)
		ticker := time.NewTicker(time.Second / podsPerSecond)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); workers.Wait() }
}

// TestWindow covers the second part of failure mode S5. A policy in the operator's cache applies to a pod from its
// first packet on; this test measures when the policy is in the cache.
func TestWindow(t *testing.T) {
	n := aFew
	if text := os.Getenv(tries); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("%s %q: %v", tries, text, err)
		}
	}
	config := kubeapiserver.New(t, kubeapiserver.Options{}).Config
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	arrived := operatorCache(t, config)
	check := func(what string, m measured) {
		t.Logf("%s, %s", what, m)
		if widest := slices.Max(m.fromAnswer); widest > longest {
			t.Errorf("%s: a policy reached the cache %s after the reply", what, widest)
		}
	}
	check("at rest", measure(t, api, arrived, "rest", n))
	stop := createPods(t, api)
	defer stop()
	check(fmt.Sprintf("while %d pods are created per second", podsPerSecond), measure(t, api, arrived, "load", n))
}
