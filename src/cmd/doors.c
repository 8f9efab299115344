/* hutch-doors - the responder for set-up doors; give it a socket of its own that only the operator can reach. */
#include "../responder/responder.h"

int main(int argc, char **argv)
{
	return responder_main(argc, argv, "hutch-doors", doors_routes, doors_routes_count);
}
