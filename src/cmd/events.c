/* hutch-events - the responder for lifecycle events and webhooks. */
#include "../responder/responder.h"

int main(int argc, char **argv)
{
	return responder_main(argc, argv, "hutch-events", events_routes, events_routes_count);
}
