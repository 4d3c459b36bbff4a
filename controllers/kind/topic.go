package kind

// Topic delivers values from one package of reconcilers to others. Subscribe must not be called once a manager runs.
// The zero value has no subscribers.
type Topic[T any] struct{ subscribers []func(T) }

// Subscribe adds a subscriber. Publish calls it, so it must not block.
func (t *Topic[T]) Subscribe(subscriber func(T)) { t.subscribers = append(t.subscribers, subscriber) }

// Publish passes a value to each subscriber, in the order of their subscriptions.
func (t *Topic[T]) Publish(value T) {
	for _, subscriber := range t.subscribers {
		subscriber(value)
	}
}
