package initd

import (
	"fmt"
	"net/rpc"
	"syscall"
)

const serviceName = "Init"

// Status is a daemon's present state.
type Status struct {
	Name   string
	PID    int // in the machine's pid namespace; 0 while it does not run
	Starts int
	Wanted bool // false after Stop
}

// Order names a daemon and, if needed, a signal.
type Order struct {
	Daemon string
	Signal syscall.Signal
}

// Nothing is the argument or reply of a call that needs none; gob requires a field.
type Nothing struct{ Unused bool }

type service struct{ machine *machine }

// Booted returns when the machine's last step is ready.
func (s *service) Booted(Nothing, *Nothing) error {
	<-s.machine.booted
	return s.machine.bootErr
}

// Status lists the daemons in their starting order.
func (s *service) Status(_ Nothing, reply *[]Status) error {
	s.machine.mu.Lock()
	defer s.machine.mu.Unlock()
	for _, name := range s.machine.order {
		*reply = append(*reply, s.machine.daemons[name].status())
	}
	return nil
}

// Signal sends a signal to a daemon. A daemon that ends restarts.
func (s *service) Signal(order Order, _ *Nothing) error {
	d, err := s.machine.daemon(order.Daemon)
	if err != nil {
		return err
	}
	return d.signal(order.Signal)
}

// Stop ends a daemon with a signal and keeps it down.
func (s *service) Stop(order Order, _ *Nothing) error { return s.want(order, false) }

// Start undoes a Stop.
func (s *service) Start(order Order, _ *Nothing) error { return s.want(order, true) }

func (s *service) want(order Order, wanted bool) error {
	d, err := s.machine.daemon(order.Daemon)
	if err != nil {
		return err
	}
	return d.want(wanted, order.Signal)
}

// Client sends orders to the init process of one machine.
type Client struct{ rpc *rpc.Client }

// Dial connects to a machine's control socket.
func Dial(socket string) (*Client, error) {
	c, err := rpc.Dial("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("init at %s: %w", socket, err)
	}
	return &Client{c}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.rpc.Close() }

// Booted waits for the machine's last step.
func (c *Client) Booted() error { return c.call("Booted", Nothing{}, &Nothing{}) }

// Status lists the daemons.
func (c *Client) Status() (daemons []Status, err error) {
	return daemons, c.call("Status", Nothing{}, &daemons)
}

// Signal sends a signal to a daemon, which restarts if it ends.
func (c *Client) Signal(daemon string, sig syscall.Signal) error {
	return c.call("Signal", Order{daemon, sig}, &Nothing{})
}

// Stop ends a daemon until Start.
func (c *Client) Stop(daemon string, sig syscall.Signal) error {
	return c.call("Stop", Order{daemon, sig}, &Nothing{})
}

// Start starts a stopped daemon.
func (c *Client) Start(daemon string) error {
	return c.call("Start", Order{Daemon: daemon}, &Nothing{})
}

func (c *Client) call(method string, args, reply any) error {
	return c.rpc.Call(serviceName+"."+method, args, reply)
}
