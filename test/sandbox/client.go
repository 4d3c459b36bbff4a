package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// Client sends requests to a sandboxd. It is safe for concurrent use.
type Client struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	ended chan struct{}

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan Answer // request -> channel for its answer
}

// Start runs a server command, such as lab.Cluster's Command of sandboxd in a node.
func Start(cmd *exec.Cmd) (*Client, error) {
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd, err)
	}
	c := &Client{cmd: cmd, input: input, ended: make(chan struct{}), waiting: map[uint64]chan Answer{}}
	go c.receive(output)
	return c, nil
}

// Close ends the server and waits for it.
func (c *Client) Close() error {
	err := c.input.Close()
	<-c.ended
	return errors.Join(err, c.cmd.Wait())
}

func (c *Client) receive(output io.Reader) {
	defer close(c.ended)
	for answers := json.NewDecoder(output); ; {
		var a Answer
		if answers.Decode(&a) != nil {
			return
		}
		c.mu.Lock()
		c.waiting[a.ID] <- a
		delete(c.waiting, a.ID)
		c.mu.Unlock()
	}
}

// Do sends a request and waits for its answer.
func (c *Client) Do(ctx context.Context, r Request) (Answer, error) {
	mine, err := c.send(r)
	if err != nil {
		return Answer{}, fmt.Errorf("call sandboxd: %w", err)
	}
	select {
	case a := <-mine:
		if a.Error != "" {
			return a, errors.New("sandboxd: " + a.Error)
		}
		return a, nil
	case <-c.ended:
		return Answer{}, errors.New("sandboxd ended")
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

func (c *Client) send(r Request) (<-chan Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	r.ID = c.last
	mine := make(chan Answer, 1) // buffered, because the caller may have gone
	c.waiting[r.ID] = mine
	return mine, json.NewEncoder(c.input).Encode(r)
}

// Make creates network namespaces.
func (c *Client) Make(ctx context.Context, names ...string) error {
	_, err := c.Do(ctx, Request{Make: names})
	return err
}

// Destroy removes network namespaces.
func (c *Client) Destroy(ctx context.Context, names ...string) error {
	_, err := c.Do(ctx, Request{Destroy: names})
	return err
}

// Call executes plugins in parallel and returns their results in the same order.
func (c *Client) Call(ctx context.Context, calls ...Call) ([]End, error) {
	a, err := c.Do(ctx, Request{Calls: calls})
	return a.Ends, err
}

// Reach returns when an address answers through an interface, at the latest after a minute.
func (c *Client) Reach(ctx context.Context, r Reach) error {
	_, err := c.Do(ctx, Request{Reach: &r})
	return err
}
